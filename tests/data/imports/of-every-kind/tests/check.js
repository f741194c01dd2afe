module.exports.strict = (output) => output.length > 1;
