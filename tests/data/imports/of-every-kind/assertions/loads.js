const fs = require("fs");
module.exports = (output) => output;
