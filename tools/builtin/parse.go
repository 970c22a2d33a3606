//go:build ignore

// parse reads a JSON array of Go sources and writes an array of what go/parser says of each, empty where it says nothing.
package main

import (
	"encoding/json"
	"go/parser"
	"go/token"
	"log"
	"os"
)

func main() {
	var sources []string
	if err := json.NewDecoder(os.Stdin).Decode(&sources); err != nil {
		log.Fatal("parse: ", err)
	}
	errors := make([]string, len(sources))
	for i, source := range sources {
		if _, err := parser.ParseFile(token.NewFileSet(), "", source, parser.SkipObjectResolution); err != nil {
			errors[i] = err.Error()
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(errors); err != nil {
		log.Fatal("parse: ", err)
	}
}
