package oci

import (
	"context"
	"sync"
)

// keyedMutex is one lock per key. The zero value is ready.
type keyedMutex struct {
	mu    sync.Mutex
	locks map[string]*keyedLock
}

// keyedLock exists while someone holds or awaits it.
type keyedLock struct {
	// held has room for one token: who could put it there holds the lock.
	held  chan struct{}
	users int // guarded by keyedMutex.mu
}

// lock waits for the key's lock or for the end of ctx. The returned function gives
// the lock back; it must be called once.
func (m *keyedMutex) lock(ctx context.Context, key string) (unlock func(), err error) {
	l := m.enter(key)
	select {
	case l.held <- struct{}{}:
		return func() { <-l.held; m.leave(key, l) }, nil
	case <-ctx.Done():
		m.leave(key, l)
		return nil, ctx.Err()
	}
}

func (m *keyedMutex) enter(key string) *keyedLock {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.locks == nil {
		m.locks = map[string]*keyedLock{}
	}
	l := m.locks[key]
	if l == nil {
		l = &keyedLock{held: make(chan struct{}, 1)}
		m.locks[key] = l
	}
	l.users++
	return l
}

func (m *keyedMutex) leave(key string, l *keyedLock) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(m.locks, key)
	}
}
