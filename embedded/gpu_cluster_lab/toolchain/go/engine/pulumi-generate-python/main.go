// Command pulumi-generate-python writes the Python SDK of a Pulumi package by Pulumi's own generator.
//
// The official language host is not published as a Go module, but its generator is, as a part of the
// engine. The project's own language host passes a request of the engine (GeneratePackageRequest) to
// standard input, and returns the response from standard output.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/pulumi/pulumi/pkg/v3/codegen/python"
	"github.com/pulumi/pulumi/pkg/v3/codegen/schema"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/plugin"
	"github.com/pulumi/pulumi/sdk/v3/go/common/version"
	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"google.golang.org/protobuf/proto"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "--version" {
		fmt.Println(version.Version)
		return
	}
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(input io.Reader, output io.Writer) error {
	encoded, err := io.ReadAll(input)
	if err != nil {
		return err
	}
	var request pulumirpc.GeneratePackageRequest
	if err := proto.Unmarshal(encoded, &request); err != nil {
		return err
	}
	response, err := generate(&request)
	if err != nil {
		return err
	}
	if encoded, err = proto.Marshal(response); err != nil {
		return err
	}
	_, err = output.Write(encoded)
	return err
}

func generate(request *pulumirpc.GeneratePackageRequest) (*pulumirpc.GeneratePackageResponse, error) {
	client, err := schema.NewLoaderClient(request.LoaderTarget)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	loader := schema.NewCachedLoader(client)
	var spec schema.PackageSpec
	if err := json.Unmarshal([]byte(request.Schema), &spec); err != nil {
		return nil, err
	}
	options := schema.ValidationOptions{AllowDanglingReferences: true}
	bound, diagnostics, err := schema.BindSpec(spec, loader, options)
	if err != nil {
		return nil, err
	}
	response := &pulumirpc.GeneratePackageResponse{
		Diagnostics: plugin.HclDiagnosticsToRPCDiagnostics(diagnostics),
	}
	if diagnostics.HasErrors() {
		return response, nil
	}
	files, err := python.GeneratePackage("pulumi-language-python", bound, request.ExtraFiles, loader)
	if err != nil {
		return nil, err
	}
	for name, content := range files {
		path := filepath.Join(request.Directory, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return nil, err
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return nil, err
		}
	}
	return response, nil
}
