package bootstrap

import (
	"fmt"
	"strings"

	"tidemark/aggregator"
	"tidemark/event"
)

// Row is a document as the service would take it.
type Row struct {
	Place   string // of the document: its source, line and id
	Row     string // JSON as the HTTP interface gives it, "" where the document is skipped
	Missing []string
	Fault   string // why the document is skipped, "" where it is not
}

// Preview shows documents as the rows that they make.
func Preview(program *aggregator.Program, mapping aggregator.Mapping, source string, docs []*Document) ([]Row, error) {
	reader, err := program.NewDocuments(mapping)
	if err != nil {
		return nil, fmt.Errorf("read documents for the query: %w", err)
	}
	place := shares{source: source}
	rows := make([]Row, len(docs))
	for i, doc := range docs {
		row := &rows[i]
		row.Place = place.place(doc)
		reason, field := doc.Reason, doc.Field
		if reason == event.OK {
			d := reader.Read(doc.Source)
			reason, field = d.Reason, d.Field
			row.Missing = append(row.Missing, d.Missing...)
			if reason == event.OK && mapping.Guard != nil && d.Guard == nil {
				row.Missing = append(row.Missing, strings.Join(mapping.Guard, "."))
			}
			if reason == event.OK {
				delta := program.NewDelta(0, 1)
				reader.AddTo(delta)
				encoded, _ := delta.Get(nil, d.Key)
				total := program.NewTotal()
				if err := total.Merge(encoded); err != nil {
					return nil, fmt.Errorf("show %s: %w", row.Place, err)
				}
				row.Row = string(total.AppendRow(nil, d.Key, false))
				continue
			}
		}
		row.Fault = reason.String()
		if field != "" {
			row.Fault += " of " + field
		}
	}
	return rows, nil
}
