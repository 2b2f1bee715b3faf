package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestGreets(t *testing.T) {
	t.Setenv("GREETING", "good morning")
	answer := httptest.NewRecorder()
	handler(options{}).ServeHTTP(answer, httptest.NewRequest("GET", "/", nil))
	if got := answer.Body.String(); !strings.HasPrefix(got, "good morning from ") {
		t.Errorf("GET / answered %q", got)
	}
}

func TestReadiness(t *testing.T) {
	for _, c := range []struct {
		fail bool
		want int
	}{{false, http.StatusOK}, {true, http.StatusServiceUnavailable}} {
		answer := httptest.NewRecorder()
		handler(options{failReady: c.fail}).ServeHTTP(answer, httptest.NewRequest("GET", "/ready", nil))
		if answer.Code != c.want {
			t.Errorf("GET /ready with fail-ready=%v answered %d, want %d", c.fail, answer.Code, c.want)
		}
	}
}

func TestExitsWhenTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, err := parse([]string{"--listen", "", "--exit-after", "3s", "--exit-code", "7"})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		began := time.Now()
		code, err := run(context.Background(), o, &out)
		if code != 7 || err != nil || time.Since(began) != 3*time.Second {
			t.Errorf("run returned %d, %v after %v", code, err, time.Since(began))
		}
	})
}

func TestGetsWhatAnotherAnswers(t *testing.T) {
	for _, c := range []struct {
		fail bool
		code int
		body string
	}{{false, 0, "ready\n"}, {true, 1, "told not to be ready\n"}} {
		server := httptest.NewServer(handler(options{failReady: c.fail}))
		var out bytes.Buffer
		code, err := fetch(context.Background(), options{get: server.URL + "/ready"}, &out)
		server.Close()
		if code != c.code || (err != nil) != c.fail || out.String() != c.body {
			t.Errorf("fail-ready=%v: fetch returned %d, %v and printed %q", c.fail, code, err, out.String())
		}
	}
}
