package server

import (
	"testing"

	apiv1 "starling.dev/starling/api/v1"
)

// Every procedure that is not a stream is called the cheap way.
func TestEveryCallIsThere(t *testing.T) {
	methods := (&Server{}).methods()
	service := apiv1.File_starling_proto.Services().Get(0)
	want := 0
	for i := range service.Methods().Len() {
		m := service.Methods().Get(i)
		if m.IsStreamingClient() || m.IsStreamingServer() {
			continue
		}
		want++
		if _, ok := methods["/"+string(service.FullName())+"/"+string(m.Name())]; !ok {
			t.Errorf("%s is only answered over HTTP", m.FullName().Name())
		}
	}
	if want == 0 || len(methods) != want {
		t.Errorf("%d methods for %d procedures", len(methods), want)
	}
}
