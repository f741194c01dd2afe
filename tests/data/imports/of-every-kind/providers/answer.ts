import "../../../../outside";
import "./part.js";
export default class {}
