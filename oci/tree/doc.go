// Package tree carries files and directories as tar archives between file systems that
// do not trust each other: a container's and a person's. Whatever an archive, or a program
// that changes files at the same time, says: nothing outside of the given [os.Root] is read
// or written.
package tree
