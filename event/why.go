package event

import "unicode/utf8"

const byteOrderMark = "\xEF\xBB\xBF"

// withoutMark drops one leading byte order mark.
func withoutMark(b []byte) []byte {
	if len(b) >= 3 && string(b[:3]) == byteOrderMark {
		return b[3:]
	}
	return b
}

// blank says whether there is nothing but blanks.
func blank(record []byte) bool {
	b := withoutMark(record)
	return skipSpace(b, 0) == len(b)
}

// whyNot tells NotUTF8 from NotJSON for bytes that are not valid JSON.
func whyNot(b []byte) Reason {
	if wide(b) || !utf8.Valid(b) {
		return NotUTF8
	}
	return NotJSON
}

// wide says whether b looks like UTF-16 or UTF-32 without a mark: JSON begins
// with an ASCII character, so zeros stand where they show width and order
// (RFC 4627, section 3). Marks of these encodings are not UTF-8 anyway.
func wide(b []byte) bool {
	if len(b) < 2 {
		return false
	}
	if (b[0] == 0) != (b[1] == 0) {
		return true
	}
	return len(b) >= 4 && b[0] == 0 && b[1] == 0 && b[2] == 0 && b[3] != 0
}
