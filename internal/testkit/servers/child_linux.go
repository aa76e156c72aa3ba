package servers

import "syscall"

// child lets a server end with the test binary, also where that is killed.
func child() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
