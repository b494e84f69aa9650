// The thread's current xla device.
#pragma once

namespace xla_go {

int current_device();

// Raises where the process has no such device. Loads Go for any index but 0.
void set_current_device(int index);

// Makes torch's device guard of type xla ours.
void register_guard();

}  // namespace xla_go
