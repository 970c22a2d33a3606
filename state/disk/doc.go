// Package disk keeps pages of prefixes in a folder, so that they outlive memory and the process.
//
//	folder, err := disk.Open(path, 10<<30, log)
//	root := disk.Root(model, class, format, tenant) // everything that pages depend on, but the tokens
//	page := disk.Page{Parent: root.Next(tokens[:64]), Tokens: tokens[64:128], Kind: 0}
//	folder.Queue(page, bytes, read)                 // written behind
//	data := folder.Load(page, bytes)                // nil: a miss
//
// A page is one file, named by the key of the prefix before it, the key of the prefix with it, and its kind. A key is a SHA-256 over all
// that its pages depend on, so a file either is what is looked for or is not found: another model, another tenant, another token has
// another name. The names are the index: a folder is read once, when it is opened. No file is opened but those that are wanted, and the
// first bytes of those that may go on like the tokens where none goes on exactly so (Next).
//
//	bytes        of a file, numbers little-endian
//	0 .. 8       "memrapge"
//	8 .. 12      version, 1
//	12 .. 16     kind
//	16 .. 48     key of the prefix before it
//	48 .. 52     tokens, 1 to 64
//	52 .. 308    their ids, and zeros
//	308 .. 316   n, the bytes of the page
//	316 .. 316+n the page
//	32 more      SHA-256 of all before
//
// A file appears whole, by a rename. One that is truncated, changed, of another version or under a wrong name is a miss and a line in the
// log, and is removed. Files with names of another kind are nobody's business here. Where the folder would outgrow its limit, the files
// that were used longest ago, by their modification time, go first. When writing fails, that is a line in the log, and nothing more is
// written. Several processes may share a folder; each counts the files that it knows of.
package disk
