package server

import (
	"context"
	"sync"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/api/v1/apiv1connect"
	"starling.dev/starling/peer"
)

// others are the members in reach that a question is passed on to, by name.
type others map[string]apiv1connect.StarlingClient

// around returns this machine's name and whom else to ask: nobody, where a member asks. The
// view is this machine's.
func (s *Server) around(ctx context.Context, v **apiv1.View) (self string, o others, err error) {
	o = others{}
	err = s.read(ctx, func(c *peer.Core) *api.Error {
		*v, self = view(c), c.Self().Name
		if s.member {
			return nil
		}
		for _, m := range c.Members() {
			if m.Name != self && m.Connected {
				o[m.Name] = s.memberClient(m.ID, m.Name)
			}
		}
		return nil
	})
	return self, o, err
}

// ask asks all at once, and returns what waits for the answers. The function that a question
// returns takes its answer in; these are called one at a time. Who did not answer is added
// to unreachable.
func (o others) ask(unreachable *[]string, question func(apiv1connect.StarlingClient) (take func(), err error)) (wait func()) {
	var mu sync.Mutex
	var asked sync.WaitGroup
	for name, client := range o {
		asked.Go(func() {
			take, err := question(client)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				*unreachable = append(*unreachable, name)
				return
			}
			take()
		})
	}
	return asked.Wait
}
