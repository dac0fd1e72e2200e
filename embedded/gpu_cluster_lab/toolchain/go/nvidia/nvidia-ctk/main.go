// Command nvidia-ctk is the NVIDIA Container Toolkit's own `runtime` command.
//
// Its other commands bind NVML by cgo; configuring a container runtime needs neither a C compiler
// nor a GPU, so this build runs wherever Go builds.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/NVIDIA/nvidia-container-toolkit/cmd/nvidia-ctk/runtime"
	"github.com/sirupsen/logrus"
	"github.com/urfave/cli/v3"
)

var version = "unknown"

func main() {
	command := cli.Command{
		Name:     "NVIDIA Container Toolkit CLI",
		Version:  version,
		Commands: []*cli.Command{runtime.NewCommand(logrus.New())},
	}
	if err := command.Run(context.Background(), os.Args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
