package peer

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/lifecycle"
)

// A change beyond the limits of its encoding is kept by others, and read by none: the state
// would not be the same any more. So nothing is written that they would not read. People,
// and loops that ask for children, are told; what a step says is made to fit, or its attempt
// fails.

// maxOutputs bounds what one step says of an object, in bytes of paths and values: as much
// as people may say in a spec.
const maxOutputs = api.MaxSpec

// cutMark ends a text that was cut off.
const cutMark = "…"

// fitText makes the texts of a register readable by others. They come from programs, of
// which nobody knows what they say.
func fitText(reg *crdt.Register) {
	reg.Message = fit(reg.Message, crdt.MaxMessage)
	if reg.Code = fit(reg.Code, crdt.MaxName); reg.Phase == crdt.PhaseFailed && reg.Message == "" {
		reg.Message = "it gave no reason"
	}
}

// fit cuts a text off between two characters, and replaces what is none.
func fit(s string, limit int) string {
	if s = strings.ToValidUTF8(s, string(utf8.RuneError)); len(s) <= limit {
		return s
	}
	n := limit - len(cutMark)
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + cutMark
}

// tooLarge says what is wrong with the outputs of an attempt that nobody would read.
func tooLarge(step *lifecycle.Step, out lifecycle.Outputs, err error) error {
	if failed := (*lifecycle.Error)(nil); errors.As(err, &failed) {
		out = failed.Outputs
	}
	size := 0
	for path, v := range out {
		if len(path) > crdt.MaxPath || !utf8.ValidString(path) || !utf8.ValidString(v) {
			return &lifecycle.Error{Code: api.TooLarge, Message: fmt.Sprintf(
				"step %s returned %.40q, whose name is longer than %d bytes, or which is not UTF-8", step.Name, path, crdt.MaxPath)}
		}
		size += len(path) + len(v)
	}
	if size <= maxOutputs && len(out) <= crdt.MaxOutputs {
		return nil
	}
	return &lifecycle.Error{Code: api.TooLarge, Message: fmt.Sprintf(
		"step %s returned %d outputs of %d bytes; at most %d of %d bytes are kept, so return less, or a place where the rest is",
		step.Name, len(out), size, crdt.MaxOutputs, maxOutputs)}
}

// legible says why others would not read a change; nil if they would.
func legible(ch *crdt.Change) *api.Error {
	if n := len(ch.Message); n > crdt.MaxMessage {
		return api.Errorf(api.TooLarge, "the note has %d bytes, and the limit is %d; nothing was changed", n, crdt.MaxMessage)
	}
	if err := ch.Validate(); err != nil {
		return api.Errorf(api.TooLarge, "%s: %w; nothing was changed", api.Key(ch.Object), err)
	}
	return nil
}
