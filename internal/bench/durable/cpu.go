package durable

import (
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// OwnCPU is the CPU time that this process has used.
func OwnCPU() (time.Duration, error) {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0, fmt.Errorf("ask for this process's CPU time: %w", err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()), nil
}

// CPU is the CPU time that etcd and this process, in which its clients are, have used.
func (e *Etcd) CPU() (time.Duration, error) { return WithCPUOf(e.cmd.Process.Pid) }

// WithCPUOf is the CPU time that another process and this one have used.
func WithCPUOf(pid int) (time.Duration, error) {
	own, err := OwnCPU()
	if err != nil {
		return 0, err
	}
	var used unix.Timespec
	// The kernel's name of another process's clock: see clock_getcpuclockid(3).
	clock := int32(^pid<<3 | 2)
	if err := unix.ClockGettime(clock, &used); err != nil {
		return 0, fmt.Errorf("ask for the CPU time of process %d: %w", pid, err)
	}
	return own + time.Duration(used.Nano()), nil
}
