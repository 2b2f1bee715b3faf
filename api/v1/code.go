package apiv1

// CodeHeader is the error metadata that carries an error's code (package api) beside
// its message.
const CodeHeader = "Starling-Code"
