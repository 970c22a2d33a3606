// Package disk keeps pages of prefixes in a folder, so that they outlive memory and the process.
//
//	folder, err := disk.Open(path, 10<<30, log)
//	root := disk.Root(model, class, format, tenant) // everything that pages depend on, but the tokens
//	key := root.Next(tokens[:64]).Next(tokens[64:128])
//	folder.Queue(key, kind, data)                // written behind
//	data := folder.Load(key, kind, bytes)        // nil: a miss
//
// A page is one file, named by its key and its kind. A key is a SHA-256 over all that the page depends on, so a file either is what is
// looked for or is not found: another model, another tenant, another token has another name. The names are the index: a folder is
// read once, when it is opened, and no file but those that are wanted is opened.
//
//	bytes      of a file, numbers little-endian
//	0 .. 8     "memrapge"
//	8 .. 12    version, 1
//	12 .. 16   kind
//	16 .. 48   key
//	48 .. 56   n, the bytes of the page
//	56 .. 56+n the page
//	32 more    SHA-256 of all before
//
// A file appears whole, by a rename. One that is truncated, changed, of another version or under a wrong name is a miss and a line in the
// log, and is removed. Files with names of another kind are nobody's business here. Where the folder would outgrow its limit, the files
// that were used longest ago, by their modification time, go first. When writing fails, that is a line in the log, and nothing more is
// written. Several processes may share a folder; each counts the files that it knows of.
package disk
