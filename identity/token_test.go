package identity

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"starling.dev/starling/api"
)

func TestTokenRoundTrip(t *testing.T) {
	w := newWorld()
	for _, addresses := range [][]string{
		{"192.0.2.7:7946"},
		{"[2001:db8::7]:7946"},
		{"node-1.example.com:65535"},
		{"[fd00::1]:1", "10.0.0.1:7946", "m1:80"},
	} {
		token, err := NewToken(ClusterID{1, 2, 3}, addresses, w)
		must(t, err)
		for _, text := range []string{token.String(), " " + strings.ToUpper(token.String()) + "\n"} {
			got, err := ParseToken(text)
			must(t, err)
			if got.Cluster != token.Cluster || got.Seed != token.Seed || !slices.Equal(got.Addresses, addresses) {
				t.Fatalf("%s became %+v", text, got)
			}
		}
	}
}

func TestTokenAddressesRefused(t *testing.T) {
	for _, addresses := range [][]string{
		nil, {"10.0.0.1"}, {":7946"}, {"10.0.0.1:0"}, {"10.0.0.1:http"}, {"10.0.0.1:70000"}, {"[fe80::1%eth0]:1"},
		{"fd00::1:80"}, {strings.Repeat("a", 254) + ":1"}, slices.Repeat([]string{"m1:1"}, 9),
	} {
		if token, err := NewToken(ClusterID{}, addresses, newWorld()); CodeOf(err) != api.Invalid {
			t.Errorf("%q gave %v, error %v", addresses, token, err)
		}
	}
}

// TestTokenMistyped: whatever single character is altered, dropped, doubled or swapped,
// the token is refused, as a token.
func TestTokenMistyped(t *testing.T) {
	token, err := NewToken(ClusterID{9}, []string{"[fd00::1]:7946", "m1.example:7946"}, newWorld())
	must(t, err)
	text := token.String()
	letters := rapid.StringMatching(`[a-z2-7]`)
	rapid.Check(t, func(t *rapid.T) {
		at := rapid.IntRange(0, len(text)-1).Draw(t, "at")
		wrong := text
		switch rapid.SampledFrom([]string{"alter", "drop", "double", "swap", "cut"}).Draw(t, "how") {
		case "alter":
			wrong = text[:at] + letters.Draw(t, "letter") + text[at+1:]
		case "drop":
			wrong = text[:at] + text[at+1:]
		case "double":
			wrong = text[:at] + text[at:at+1] + text[at:]
		case "swap":
			if at > 0 {
				wrong = text[:at-1] + text[at:at+1] + text[at-1:at] + text[at+1:]
			}
		case "cut":
			wrong = text[:at]
		}
		if wrong == text {
			return
		}
		if got, err := ParseToken(wrong); CodeOf(err) != api.TokenInvalid {
			t.Fatalf("%s gave %+v, error %v", wrong, got, err)
		}
	})
}

func TestTokenMessages(t *testing.T) {
	token, err := NewToken(ClusterID{9}, []string{"m1:7946"}, newWorld())
	must(t, err)
	text := token.String()
	odd := tokenPrefix + "aaaaaaaa"
	for _, tc := range []struct{ text, want string }{
		{"", `begins with "st1-"`},
		{"hello", `begins with "st1-"`},
		{"st2-" + text[4:], `begins with "st1-"`},
		{text[:10] + "0" + text[11:], `character 11, '0', never occurs`},
		{text[:10] + "é" + text[11:], "never occurs"},
		{text[:len(text)-3], "cut short"},
		{text[:10] + "\n" + text[10:], "cut short or mistyped"},
		{odd, "checksum"},
		{tokenPrefix, "cut short"},
		{tokenPrefix + strings.Repeat("a", 4000), "more than"},
	} {
		if _, err := ParseToken(tc.text); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%.40q: %v; want %q", tc.text, err, tc.want)
		}
	}
}
