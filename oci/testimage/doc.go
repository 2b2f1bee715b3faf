// Package testimage builds the small image that the demo and the tests run, so
// that neither needs a container registry or an image builder.
//
// The image holds one static program and the few files of /etc that looking up a
// user needs. The same input gives the same image, byte for byte.
package testimage
