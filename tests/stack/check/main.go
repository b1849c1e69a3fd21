// Checks a Compose file and Dockerfiles with the code that Docker itself reads them by.
//
//	check FILE...   a Dockerfile by its name, else a Compose file
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

func main() {
	for _, file := range os.Args[1:] {
		check := compose
		if strings.HasPrefix(filepath.Base(file), "Dockerfile") {
			check = dockerfile
		}
		if err := check(file); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", file, err)
			os.Exit(1)
		}
	}
}

// compose loads a project: the specification's schema, then what its loader holds of
// references; and each file or folder that is mounted has to be there.
func compose(file string) error {
	details := types.ConfigDetails{
		WorkingDir:  filepath.Dir(file),
		ConfigFiles: []types.ConfigFile{{Filename: file}},
	}
	project, err := loader.LoadWithContext(context.Background(), details)
	if err != nil {
		return err
	}
	for _, service := range project.Services {
		for _, volume := range service.Volumes {
			if volume.Type != types.VolumeTypeBind {
				continue
			}
			if _, err := os.Stat(volume.Source); err != nil {
				return fmt.Errorf("service %s mounts what is not there: %w", service.Name, err)
			}
		}
		for _, port := range service.Ports {
			if port.HostIP != "127.0.0.1" {
				return fmt.Errorf("service %s: port %s is not bound to 127.0.0.1", service.Name, port.Published)
			}
		}
	}
	return nil
}

// dockerfile parses the file and each instruction with its flags.
func dockerfile(file string) error {
	source, err := os.Open(file)
	if err != nil {
		return err
	}
	defer source.Close()
	parsed, err := parser.Parse(source)
	if err != nil {
		return err
	}
	_, _, err = instructions.Parse(parsed.AST, nil)
	return err
}
