package lint

import (
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strings"
)

// ban is a pattern that must not occur in some files.
type ban struct {
	pattern *regexp.Regexp
	in      func(path string) bool
	why     string
}

func anywhere(p string) bool { return !strings.HasPrefix(p, "internal/lint/") }
func outsideOCI(p string) bool {
	return anywhere(p) && !strings.HasPrefix(p, "oci/") // which expands short names as people expect
}
func inTests(p string) bool { return anywhere(p) && strings.HasSuffix(p, "_test.go") }

var bans = []ban{
	{regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME)\b`), anywhere, "finish it, or file an issue"},
	{regexp.MustCompile(`\btime\.Sleep\(`), inTests, "wait for what is to happen, or use testing/synctest"},
	{regexp.MustCompile(`(^|[\s"'` + "`" + `=(:])/(work|home|Users)/\w`), anywhere, "no path of somebody's own machine"},
	{regexp.MustCompile(`\b(docker\.io|quay\.io|ghcr\.io|gcr\.io|registry\.k8s\.io|proxy\.golang\.org|npmjs\.org)\b`), outsideOCI, "nothing here needs a registry"},
}

// CheckText looks for what must not be left in any file.
func (t *Tree) CheckText() (problems []string) {
	for _, text := range t.Texts {
		for _, b := range bans {
			if !b.in(text.Path) {
				continue
			}
			for i, line := range strings.Split(text.Body, "\n") {
				if found := b.pattern.FindString(line); found != "" {
					problems = append(problems, fmt.Sprintf("%s:%d: %q: %s", text.Path, i+1, found, b.why))
				}
			}
		}
	}
	return problems
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	fenced  = regexp.MustCompile("(?ms)^```.*?^```")
	unheard = regexp.MustCompile(`[^\p{L}\p{N}\- _]`)
)

// CheckLinks follows the links between the documents.
func (t *Tree) CheckLinks() (problems []string) {
	bodies := map[string]string{}
	for _, text := range t.Texts {
		if path.Ext(text.Path) == ".md" {
			bodies[text.Path] = fenced.ReplaceAllString(text.Body, "")
		}
	}
	for _, text := range t.Texts {
		for _, m := range link.FindAllStringSubmatch(bodies[text.Path], -1) {
			if why := t.broken(bodies, text.Path, m[1]); why != "" {
				problems = append(problems, fmt.Sprintf("%s: link to %s: %s", text.Path, m[1], why))
			}
		}
	}
	return problems
}

func (t *Tree) broken(bodies map[string]string, from, to string) (why string) {
	u, err := url.Parse(to)
	switch {
	case err != nil:
		return err.Error()
	case u.Scheme != "":
		return "" // somebody else's page
	}
	target := from
	if u.Path != "" {
		target = path.Join(path.Dir(from), u.Path)
	}
	if !t.names[target] {
		return "there is no " + target
	}
	if u.Fragment != "" && !anchors(bodies[target])[u.Fragment] {
		return "no such heading in " + target
	}
	return ""
}

// anchors are the names by which the headings of a document can be reached.
func anchors(body string) map[string]bool {
	all := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(body, -1) {
		name := unheard.ReplaceAllString(strings.ToLower(m[1]), "")
		all[strings.ReplaceAll(name, " ", "-")] = true
	}
	return all
}
