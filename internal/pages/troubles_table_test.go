package pages

// trouble is one of those that people have with systems which keep running
// totals over Kafka.
type trouble struct {
	id   string
	what string // the trouble
	does string // what Tidemark does
}

// group are the troubles of one kind.
type group struct {
	title    string
	troubles []trouble
}

// groups are all troubles, in the order of the page. Numbers have gaps; what is
// left out belongs to windows and age limits, which Tidemark does not have.
var groups = []group{
	{"Input data", []trouble{
		{"D01", "One empty or cut-off message stops the whole stream.", "It is a bad record: counted, logged, sent to the dead letter, passed. Its neighbours count."},
		{"D03", "The text `null`, a number or an array comes where an object is expected.", "A bad record with a reason of its own; a record without a value is a tombstone, which is something else."},
		{"D04", "Numbers come as texts.", "A quoted plain decimal is a number; anything else in quotes is a bad record that spoils only itself."},
		{"D06", "A huge number in a field that nobody reads makes the parser give up.", "Fields that the query does not read are skipped without being converted."},
		{"D07", "Exponents are misread, or an absurd one takes the memory.", "`7E+3` is 7000 exactly. Beyond 38 digits on either side of the point it is a bad record, found without any work."},
		{"D09", "A byte order mark makes good JSON unreadable.", "One mark of UTF-8 at the front is dropped; UTF-16 is a bad record whose reason says so."},
		{"D10", "Broken UTF-8 ends the consumer, or two broken keys become one.", "A bad record: bytes are never replaced, so that no two keys become the same."},
		{"D12", "A field is now one value, now an array.", "A set takes one, several, none and null alike, in events and in history documents; a number in an array is a bad record."},
		{"D13", "Null in a number fails a batch, or counts as zero.", "A bad record with a reason of its own, unless the query says what null is (`COALESCE`)."},
		{"D14", "Records without a Kafka key vanish.", "The value's own key decides; the record's key is not looked at."},
		{"D16", "Seconds are read as milliseconds, and fall into January 1970.", "The unit follows from the magnitude: s, ms, µs, ns. What is no plausible instant is a bad record."},
		{"D17", "Dates in another spelling are refused.", "One documented list of spellings, the same for history and stream; anything else is a bad record."},
		{"D18", "Leniency turns a broken record into nulls, or drops it unseen.", "No value is made up. Folded, filtered, bad, tombstones and those before the cut add up to what was consumed, always."},
		{"D20", "A record above the fetch limit stops its partition without a word.", "It is read, whatever the limit; above `events.max_bytes` it is a bad record, and the rest goes on."},
		{"D21", "Refunds are refused, or zero comes out with a sign.", "They add like any number, totals may be negative, and zero has no sign."},
	}},
	{"History", []trouble{
		{"B01", "The search context expires while pages are being worked on.", "The history is read again from a new snapshot of the index; no document is left out or counted twice."},
		{"B03", "Some shards fail, the answer is 200 all the same, and documents are missing.", "Partial answers are asked not to be given, and shards, time-outs and the number of documents are checked on every page."},
		{"B04", "A busy server answers 429, 503 or 500, and the export ends.", "It is asked again with growing waits, `Retry-After` is honoured, and retries are a metric."},
		{"B05", "An export ends at 10 000 documents.", "Pages go on from the last document's place; a page size above the index's limit is refused at the start."},
		{"B07", "Newer numeric types of an index are unknown, or come back rounded.", "The text of the document counts, whatever its mapping."},
		{"B08", "A filter on the source makes the server write decimals anew.", "No filter is asked for, and an index whose sources are kept filtered or made anew is refused."},
		{"B09", "The index keeps no documents, and the totals start at nothing.", "Refused before Kafka is read, with the name of the index."},
		{"B10", "Wanted fields are missing in many documents.", "They are counted by field; above `history.max_missing_share` the history is refused with the field's name."},
		{"B11", "The client refuses a server that is not its vendor's.", "Elasticsearch 7 and 8 and OpenSearch are read; a login that may not see `/` is no obstacle."},
		{"B12", "An export that was killed half-way counts as complete, or as nothing.", "Seeds are published whole; half a history is never served, and what is published already is not read again."},
		{"B14", "\"The end\" is resolved again after a crash, and what came in between is lost.", "`latest` becomes a number once, which is kept with the state and the group before the first record is read."},
		{"B15", "Search contexts are left open until the server refuses new ones.", "Each is closed, at success, failure and SIGTERM; how many there are at once is bounded."},
	}},
	{"Kafka and the group", []trouble{
		{"K01", "Retention took the stored offset, and the consumer stands still for days.", "State `gap`, 503, and the number of records missing; `on_gap` says whether it goes on without them."},
		{"K02", "The newest snapshot is older than what the log still holds.", "The same: the gap has a number, and an operator decides."},
		{"K04", "The topic was deleted and created again, and old offsets fit the new one.", "The topic's id is kept with the state; another one pauses the partition, whatever the offsets are."},
		{"K05", "Records of a new partition are lost before it is noticed.", "A partition that appears later begins at its beginning, whatever the reset says."},
		{"K07", "Records count twice around a rebalance.", "Totals and position are one write, and an owner that was overtaken is refused by the store and the group."},
		{"K09", "A restore runs inside the rebalance, the member is thrown out, and it begins again.", "Heartbeats go on beside it, for as long as it takes; other partitions are live meanwhile."},
		{"K10", "A cooperative rebalance names the difference alone, and the rest is forgotten.", "A partition is held from the assignment that names it until one takes it away."},
		{"K12", "One slow batch passes the poll limit and sets off a storm of rebalances.", "Folding, writing and heartbeats are apart; what waits in memory is bounded."},
		{"K13", "Two members share a static id, and one of them loops.", "The one that is fenced ends, with a message that names the id."},
		{"K14", "Static ids that change with each start block partitions until the session ends.", "`kafka.leave_on_shutdown` chooses whether a member leaves; `serve` and `check` warn of an id that looks random."},
		{"K15", "Lag never comes to 0 behind transactions, or is huge for a topic that expired.", "Lag is the readable end less the next offset; markers are passed."},
		{"K16", "Holes in the offsets are taken for loss, or hang the reader.", "Holes are normal: the next offset jumps over them."},
		{"K17", "Aborted transactions count.", "`read_committed` is the default."},
		{"K18", "The group's offsets expired, and everything is read again.", "The position in the state decides; the group's offset is a display, and is written again."},
		{"K19", "The committed number is the last record read, so that tools are off by one.", "The group shows the next offset to read."},
	}},
	{"State", []trouble{
		{"S01", "A second process on one folder crashes or spins.", "It waits for a while, then ends with path and holder; the lock file is never removed."},
		{"S02", "A copy taken while writing cannot be opened later.", "A snapshot is made from flushed data, opened and compared before it is published."},
		{"S04", "A full disk damages the state, or nothing goes on without help.", "Folding stops before, reads go on, and it resumes by itself; a ballast file buys the room to close."},
		{"S05", "Disk use grows until a restart.", "No read holds anything open for long; what compaction has yet to remove is shown."},
		{"S06", "Closing fails because readers are left.", "Reads are ended first, then the state closes."},
		{"S07", "Memory is far above what was planned.", "One budget, `state.memory`, for caches and write buffers of all partitions."},
		{"S08", "A restore takes hours.", "It costs what the state is large, and the log is read from the snapshot's position on; progress and time left are shown."},
		{"S10", "A snapshot mixes files of two versions, or lacks one.", "A manifest with sizes and sums is written last; a damaged snapshot is passed over for the one before, with an error in the log."},
		{"S11", "Cleaning up removes what is in use, or leaves files behind.", "Only what no manifest names and is old goes, also where two members clean up at once."},
		{"S12", "An object store does not show yet what was just written.", "No renames; what is not found is asked for again, then the snapshot before is taken."},
		{"S14", "After an upgrade stored values cannot be read.", "State, values and snapshots carry versions: older ones are read, newer ones refused with both numbers."},
		{"S16", "A crash between totals and offset counts a batch twice.", "They are one write; a crash at any step leaves whole ones."},
		{"S17", "A restore never ends, since the last offsets are markers.", "It is done when the position has passed the target, not when a record with it is seen."},
	}},
	{"Queries over HTTP", []trouble{
		{"Q01", "Right after a start a key that exists is \"not found\".", "503 with `Retry-After` and the reason, until all that may hold it is loaded; 404 only then."},
		{"Q03", "A member does not find the owner of a key.", "Any member answers for any key; where the owner is away, 503 and never 404."},
		{"Q04", "Members advertise 0.0.0.0 or localhost.", "An address that others cannot reach is refused at the start, or found from the way to Kafka."},
		{"Q05", "A client does not see its own write.", "`min_offset=PARTITION:OFFSET` waits for it up to `timeout`, else 504 with the positions."},
		{"Q06", "All keys or nothing: no paging.", "Pages by key with a cursor; each key that stays is on one page exactly, also while others come."},
		{"Q08", "A full scan slows everything.", "Work is bounded in time and number; listings never hold up folding."},
		{"Q09", "Browsers are locked out.", "`http.cors_origins` is a list, empty by default; a preflight wants no token."},
		{"Q11", "Requests reach a member that is closing.", "It answers 503, `/readyz` first of all, and asks connections to close."},
	}},
	{"Operation", []trouble{
		{"O01", "A liveness check kills what is only restoring.", "`/healthz` is 200 while the process works; `/readyz` waits until all is live."},
		{"O03", "A shutdown drops, repeats, or commits wrong.", "It applies what it has folded, publishes, leaves and closes within 25 s; a second signal ends it at once, with the same totals after."},
		{"O04", "A typo in the configuration is passed over.", "An error with line and nearest name; `check` gives the verdict of `serve`."},
		{"O05", "A variable that is not set becomes an empty value.", "All of them are named at the start; `${NAME:default}` has a default, and `check --allow-unset` does without."},
		{"O07", "One error line a record fills the disk.", "Twenty lines a minute for each reason, then their number."},
		{"O08", "Mistakes in TLS or login look like \"no brokers\", or hang.", "`check --connect` says which step fails, where, and which setting to see; secrets are not printed."},
		{"O09", "Kafka or the search server is away at a start, and the process gives up.", "It waits with growing pauses: alive, not ready."},
		{"O10", "Metrics keep series of partitions that left.", "A partition's series end with its ownership."},
		{"O11", "Times without a zone follow the host's.", "They are in `events.timestamp_zone`, UTC by default, wherever it runs."},
		{"O12", "A second change of scale begins all restores anew.", "What was downloaded is used when the restore begins again."},
	}},
	{"Exactness", []trouble{
		{"N01", "Sums show tails like 226.08999999999997.", "Sums are decimals."},
		{"N03", "Single precision loses cents.", "No binary floating point anywhere, from stream or history."},
		{"N04", "Decimals of different scale clash.", "They add exactly; nothing is cut unless the query casts."},
		{"N05", "Clients that read numbers as doubles change the digits.", "`numbers=string` gives every number as a text."},
		{"N06", "Sums overflow, wrap or drop.", "A sum has as many digits as it needs; one number has 38 at most, beyond which it is a bad record."},
		{"T01", "Late records are left out of running totals.", "Every record counts, whenever it comes; a maximum of time is a maximum."},
	}},
}
