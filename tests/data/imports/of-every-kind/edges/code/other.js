export const other = process.env.OTHER_KEY + process.env.PATH
