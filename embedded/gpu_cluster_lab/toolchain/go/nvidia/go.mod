module gpu-cluster/toolchain/nvidia

go 1.26.0

require (
	github.com/NVIDIA/nvidia-container-toolkit v1.20.2
	github.com/sirupsen/logrus v1.9.4
	github.com/urfave/cli/v3 v3.10.1
)

require (
	github.com/pelletier/go-toml v1.9.5 // indirect
	golang.org/x/sys v0.49.0 // indirect
)
