package server

import (
	"sync"
	"time"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
)

// answers remembers what single objects looked like, for as long as nothing at all happens
// to the core: until then the core would say the same again, and need not be asked.
type answers struct {
	mu sync.RWMutex // guards what follows
	// version is the one that all of them are of.
	version uint64
	byKey   map[api.Key]*apiv1.GetResponse
}

// maxAnswers bounds what is remembered.
const maxAnswers = 4096

// of returns the answer about an object at a version, with the time of now.
func (a *answers) of(version uint64, key api.Key) (*apiv1.GetResponse, bool) {
	a.mu.RLock()
	res, ok := a.byKey[key]
	ok = ok && a.version == version
	a.mu.RUnlock()
	if !ok {
		return nil, false
	}
	v := res.GetView()
	return &apiv1.GetResponse{Objects: res.GetObjects(), View: &apiv1.View{
		Machine: v.GetMachine(), TimeMs: time.Now().UnixMilli(), Unreachable: v.GetUnreachable(), SilentSinceMs: v.GetSilentSinceMs(),
	}}, true
}

// keep remembers an answer, which nobody changes any more.
func (a *answers) keep(version uint64, key api.Key, res *apiv1.GetResponse) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if version < a.version {
		return
	}
	if a.byKey == nil || version > a.version || len(a.byKey) >= maxAnswers {
		a.version, a.byKey = version, map[api.Key]*apiv1.GetResponse{}
	}
	a.byKey[key] = res
}
