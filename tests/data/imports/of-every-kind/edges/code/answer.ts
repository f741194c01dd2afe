import { part } from "./part"
import { gone } from "../../outside"
import { other } from "../code/other.js"
import { kept } from "../node_modules/kept"
export default (prompt: string) => part + other + process.env.ANSWER_KEY + process.env["HOME"]
