package text

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/client"
)

// column is one column of a list of objects.
type column struct {
	title string
	wide  bool // only with -o wide
	cell  func(Style, *apiv1.Object) string
}

// Objects lists objects, sorted by key, in a table for each kind.
func (s Style) Objects(list []*apiv1.Object, wide bool) string {
	var tables []string
	for len(list) > 0 {
		kind := list[0].GetKey().GetKind()
		n := slices.IndexFunc(list, func(o *apiv1.Object) bool { return o.GetKey().GetKind() != kind })
		if n < 0 {
			n = len(list)
		}
		tables = append(tables, s.objectTable(s.columnsOf(kind), list[:n], wide))
		list = list[n:]
	}
	return strings.Join(tables, "\n")
}

func (s Style) objectTable(columns []column, list []*apiv1.Object, wide bool) string {
	columns = slices.DeleteFunc(slices.Clone(columns), func(c column) bool { return c.wide && !wide })
	head := make([]string, len(columns))
	for i, c := range columns {
		head[i] = c.title
	}
	rows := [][]string{head}
	for _, o := range list {
		row := make([]string, len(columns))
		for i, c := range columns {
			row[i] = orNone(c.cell(s, o))
		}
		rows = append(rows, row)
	}
	return table(rows)
}

func (s Style) columnsOf(kind string) []column {
	first := []column{
		{"OBJECT", false, func(_ Style, o *apiv1.Object) string { return client.KeyOf(o.GetKey()).String() }},
		{"PHASE", false, func(_ Style, o *apiv1.Object) string { return o.GetPhase() }},
		{"VERDICT", true, func(_ Style, o *apiv1.Object) string { return o.GetVerdict() }},
		{"REV", false, revCell},
	}
	last := []column{
		{"AGE", false, func(s Style, o *apiv1.Object) string { return s.age(o.GetCreatedMs()) }},
		{"CREATOR", true, func(_ Style, o *apiv1.Object) string { return o.GetCreator() }},
	}
	return slices.Concat(first, s.kindColumns(kind), last)
}

func (s Style) kindColumns(kind string) []column {
	switch kind {
	case "Pod":
		return []column{
			{"MACHINE", false, statusCell("status.machine")},
			{"RESTARTS", false, restartsCell},
			{"ADDRESS", true, statusCell("status.address")},
			{"IMAGES", true, imagesCell},
		}
	case "Machine":
		return []column{
			{"ADDRESS", false, statusCell("status.address")},
			{"CPU", false, statusCell("status.capacity.cpu")},
			{"MEMORY", false, func(_ Style, o *apiv1.Object) string {
				return size(api.Fields(o.GetStatus()).Bytes("status.capacity.memory"))
			}},
			{"PREFIX", true, statusCell("status.prefix")},
			{"RUNTIME", true, statusCell("status.runtime")},
			{"KERNEL", true, statusCell("status.kernel")},
		}
	}
	return s.tableColumns(kind)
}

// tableColumns are those that the kind's table asks for, each called by the last part of
// its path.
func (s Style) tableColumns(kind string) []column {
	k, _ := s.kinds().KindByName(kind)
	var columns []column
	for _, path := range k.Columns {
		segments, err := api.Split(path)
		if err != nil {
			continue
		}
		columns = append(columns, column{strings.ToUpper(segments[len(segments)-1]), false, func(_ Style, o *apiv1.Object) string {
			return s.cell(kind, path, o)
		}})
	}
	return columns
}

func (s Style) kinds() *api.Catalog {
	if s.Kinds == nil {
		return api.Builtin()
	}
	return s.Kinds
}

// cell shows one field, with its default where nothing was written.
func (s Style) cell(kind, path string, o *apiv1.Object) string {
	all := s.kinds().Effective(kind, o.GetFields())
	raw, ok := all[path]
	if !ok {
		raw = o.GetStatus()[path]
	}
	value := api.Fields{"": raw}
	if text := cmp.Or(value.String(""), strings.Join(value.Strings(""), ",")); text != "" {
		return text
	}
	return raw
}

// revCell marks a rev that people disagree about.
func revCell(_ Style, o *apiv1.Object) string {
	if len(o.GetConflicts()) > 0 {
		return o.GetRev() + " (conflict)"
	}
	return o.GetRev()
}

func statusCell(path string) func(Style, *apiv1.Object) string {
	return func(_ Style, o *apiv1.Object) string { return api.Fields(o.GetStatus()).String(path) }
}

func restartsCell(_ Style, o *apiv1.Object) string {
	status, sum := api.Fields(o.GetStatus()), int64(0)
	for _, name := range status.Keys("status.containers") {
		sum += status.Int(api.Join("status", "containers", name, "restarts"))
	}
	return strconv.FormatInt(sum, 10)
}

func imagesCell(_ Style, o *apiv1.Object) string {
	fields := api.Fields(o.GetFields())
	var images []string
	for _, name := range fields.Keys("spec.containers") {
		images = append(images, fields.String(api.Join("spec", "containers", name, "image")))
	}
	return strings.Join(images, ",")
}
