export const part = process.env.PART_KEY
