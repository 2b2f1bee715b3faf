// Package text prints a peer's answers for people: tables, trees and sentences. What
// programs read (JSON, YAML, names) is in encode.go.
//
// Every printer is a pure function of an answer and a [Style], so that its text can be
// compared with a file.
package text
