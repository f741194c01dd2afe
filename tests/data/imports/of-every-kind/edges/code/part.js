export const part = process.env.PART_OF_JS_KEY
