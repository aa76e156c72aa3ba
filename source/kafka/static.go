package kafka

import (
	"fmt"
	"regexp"
	"slices"
)

// The values of Config.LeaveOnShutdown: whether the group is told at the end,
// so that it gives the partitions to others at once, or finds out after the
// session timeout, so that this process may come back to them before.
const (
	LeaveAuto  = "auto"  // a dynamic member leaves, a static one stays
	LeaveTrue  = "true"  // every member leaves
	LeaveFalse = "false" // every member stays
)

// static says that the member has an id of its own choice (KIP-345).
func (c Config) static() bool { return c.GroupInstanceID != "" }

// leaves says that the member leaves the group when it ends.
func (c Config) leaves() bool {
	switch c.LeaveOnShutdown {
	case LeaveTrue:
		return true
	case LeaveFalse:
		return false
	}
	return !c.static()
}

// Warnings are sentences about settings that are allowed and seldom meant.
func (c Config) Warnings() []string {
	if !c.static() || !looksRandom(c.GroupInstanceID) {
		return nil
	}
	return []string{fmt.Sprintf("group.instance.id %q looks random, like the name of a Deployment's pod: after a restart under another name "+
		"the group waits %v for the old one; use a name that stays, such as a StatefulSet's, or leave the id out", c.GroupInstanceID, c.sessionTimeout())}
}

// safe are the letters and digits that Kubernetes makes random names of
// (k8s.io/apimachinery/pkg/util/rand).
const safe = `[bcdfghjklmnpqrstvwxz2456789]`

var (
	podOfDeployment = regexp.MustCompile(`-` + safe + `{6,10}-` + safe + `{5}$`)
	podOfSet        = regexp.MustCompile(`-` + safe + `{5}$`) // of a DaemonSet, a Job
	hexRun          = regexp.MustCompile(`(?i)(?:^|[-_.])[0-9a-f]{8,}(?:$|[-_.])`)
	mixed           = regexp.MustCompile(`(?i)[0-9][a-z]`) // a number at the end of a word is no sign
)

// looksRandom guesses whether an id was made by chance, and so differs at each
// start.
func looksRandom(id string) bool {
	if podOfDeployment.MatchString(id) {
		return true
	}
	runs := append(hexRun.FindAllString(id, -1), podOfSet.FindString(id))
	return slices.ContainsFunc(runs, mixed.MatchString)
}
