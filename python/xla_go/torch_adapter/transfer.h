// Moving elements between the host, the device and storages.
#pragma once

#include <ATen/core/Tensor.h>

namespace xla_go {

// Copies the elements of `source` (on xla), dense and row-major, to `destination`, which has room
// for numel elements of source's dtype. Conjugate and negative bits are not applied. Waits
// without the GIL; a signal handler that raises ends the wait with its exception.
void read_elements(const at::Tensor& source, void* destination);

// A dense CPU tensor with the values of `source` (on xla), bits applied lazily as in `source`.
at::Tensor read_tensor(const at::Tensor& source);

// Writes the CPU tensor `source` into `target` (on xla), with broadcasting and conversion.
void upload(const at::Tensor& target, const at::Tensor& source);

// A copy of a CPU tensor on an xla device.
at::Tensor to_device(const at::Tensor& source, int device);

// target[...] = source, both on xla, with broadcasting and conversion. Checks shapes, not dtypes.
void copy_on_device(const at::Tensor& target, const at::Tensor& source);

// The kernel of aten::copy_, for any pair of devices of which one is xla.
at::Tensor& copy(at::Tensor& self, const at::Tensor& source, bool non_blocking);

}  // namespace xla_go
