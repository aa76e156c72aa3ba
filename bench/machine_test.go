package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ticks is the unit of times in /proc/stat, in parts of a second: it is 100 on every
// Linux that Go runs on.
const ticks = 100

// machine is one line on what the figures were measured on.
func machine() string {
	model, memory := "unknown processor", "unknown memory"
	if line := lineOf("/proc/cpuinfo", "model name"); line != "" {
		model = line
	}
	if kib, err := strconv.Atoi(strings.TrimSuffix(lineOf("/proc/meminfo", "MemTotal"), " kB")); err == nil {
		memory = fmt.Sprintf("%.0f GiB", float64(kib)/(1<<20))
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease") // its absence shows in the line
	return fmt.Sprintf("%d cores (%s), %s of memory, %s %s, %s", runtime.NumCPU(), model, memory,
		runtime.GOOS, bytes.TrimSpace(kernel), runtime.Version())
}

// lineOf is the value of the first line "NAME: VALUE" of a file, "" without one.
func lineOf(path, name string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	s := bufio.NewScanner(bytes.NewReader(text))
	for s.Scan() {
		if n, value, ok := strings.Cut(s.Text(), ":"); ok && strings.TrimSpace(n) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// cpu is what a process has used so far, in seconds, by the kernel's clock of
// the process: /proc shows it in hundredths alone. It is 0 where the process has
// ended, or is none.
func cpu(pid int) float64 {
	const scheduled = 2 // CPUCLOCK_SCHED, as clock_getcpuclockid(3) puts it together
	var at unix.Timespec
	if pid <= 0 || unix.ClockGettime(int32(^pid<<3|scheduled), &at) != nil {
		return 0
	}
	return float64(at.Nano()) / 1e9
}

// peak is the most memory that a process has had, in MiB; 0 where it has ended.
func peak(pid int) float64 {
	kib, err := strconv.Atoi(strings.TrimSuffix(lineOf(fmt.Sprintf("/proc/%d/status", pid), "VmHWM"), " kB"))
	if err != nil {
		return 0
	}
	return float64(kib) / 1024
}

// busy is what all processes have used so far, in seconds.
func busy() float64 {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), "\n")
	sum := 0
	for i, f := range strings.Fields(first)[1:] {
		if n, err := strconv.Atoi(f); err == nil && i < 8 && i != 3 && i != 4 { // not idle, not waiting for the disk
			sum += n
		}
	}
	return float64(sum) / ticks
}

// own is what the harness itself has used so far, in seconds.
func own() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// meter tells what else ran while something was measured.
type meter struct {
	b                  *bench
	busy, own, servers float64
}

func (b *bench) meter() meter {
	return meter{b: b, busy: busy(), own: own(), servers: b.servers()}
}

// servers is what the broker and the search node have used so far, in seconds.
func (b *bench) servers() float64 { return cpu(b.broker.pid) + cpu(b.searching) }

// others are the CPU seconds since the meter began that neither what was
// measured (its own are given), nor the servers, nor the harness used.
func (m meter) others(measured float64) float64 {
	return max(0, busy()-m.busy-measured-(own()-m.own)-(m.b.servers()-m.servers))
}
