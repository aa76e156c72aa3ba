// Package crashpoint names the moments at which a crash is worth a test. A call
// of Hit stands at each. In an ordinary build it is nothing; in one with the
// build tag crashpoints the process kills itself with SIGKILL where the
// environment says so: TIDEMARK_CRASH=NAME:N is the N-th hit of a name, from 1.
package crashpoint

// Stage is the part of a partition's life in which a name is come by.
type Stage int

// The stages, in their order.
const (
	Seeding     Stage = iota // a partition with a history and without any snapshot
	Restoring                // it has a snapshot, and no state here that is as far on
	Creating                 // it has neither history, snapshot nor state
	Working                  // records are folded, applied and published
	HandingOver              // it is let go of in order
)

// Point is a name for Hit.
type Point struct {
	Name  string
	Stage Stage
	Once  bool // it is come by once in a process, not once or more for each partition
}

// Points are all the names, in the order in which a member comes by them.
// Those of package snapshot are the steps of its publishes, claims, restores
// and clean-ups.
var Points = []Point{
	{Name: "cut resolved", Stage: Seeding},  // where a partition begins is known to nobody else
	{Name: "cut committed", Stage: Seeding}, // the group knows it
	{Name: "workspace opened", Stage: Seeding, Once: true},
	{Name: "seeds created", Stage: Seeding, Once: true},
	{Name: "history documents", Stage: Seeding}, // some hundreds more are read
	{Name: "history read", Stage: Seeding, Once: true},
	{Name: "seed ended", Stage: Seeding},
	{Name: "seed published", Stage: Seeding},
	{Name: "workspace closed", Stage: Seeding, Once: true},

	{Name: "announce", Stage: Restoring}, // the group is about to be told what is taken over
	{Name: "announced", Stage: Restoring},
	{Name: "claim", Stage: Restoring},
	{Name: "claimed", Stage: Restoring},
	{Name: "taken", Stage: Restoring},
	{Name: "shared", Stage: Restoring}, // a table of the store is the restore's too, by a link or a clone
	{Name: "download", Stage: Restoring},
	{Name: "downloaded", Stage: Restoring},
	{Name: "lay out", Stage: Restoring},
	{Name: "install", Stage: Restoring},   // the folder is about to get its name
	{Name: "installed", Stage: Restoring}, // it has it
	{Name: "retired", Stage: Restoring},   // the state that was there, if any, is out of the way
	{Name: "moved", Stage: Restoring},     // the restored one is in its place
	{Name: "restored", Stage: Restoring},

	{Name: "state wanted", Stage: Creating}, // the partition is taken, and has no state
	{Name: "state made", Stage: Creating},

	{Name: "letters written", Stage: Working}, // bad records are in the dead letter, and not counted yet
	{Name: "apply", Stage: Working},
	{Name: "applied", Stage: Working},
	{Name: "flush", Stage: Working},
	{Name: "flushed", Stage: Working},
	{Name: "checkpoint", Stage: Working},
	{Name: "inspect", Stage: Working},
	{Name: "upload", Stage: Working},
	{Name: "upload file", Stage: Working},
	{Name: "uploaded", Stage: Working},
	{Name: "manifest", Stage: Working},  // is about to be created
	{Name: "created", Stage: Working},   // is there
	{Name: "published", Stage: Working}, // the group is about to be told
	{Name: "committed", Stage: Working}, // it has been
	{Name: "remove", Stage: Working},    // an old manifest or file is about to be removed
	{Name: "reaped", Stage: Working},

	{Name: "hand over", Stage: HandingOver},
	{Name: "handed over", Stage: HandingOver},
	{Name: "state closed", Stage: HandingOver},
}
