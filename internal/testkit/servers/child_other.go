//go:build !linux

package servers

import "syscall"

// child keeps a terminal's interrupt from the server: the test stops it.
func child() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
