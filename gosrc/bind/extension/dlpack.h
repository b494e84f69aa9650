// The records of DLPack, versions 0.x ("dltensor") and 1.x ("dltensor_versioned"), as its
// specification lays them out.
#pragma once
#include <stdint.h>

typedef struct {
  int32_t type;  // 1 CPU, 2 CUDA, 10 ROCm, ...
  int32_t id;
} dlpack_device;

typedef struct {
  void* data;
  dlpack_device device;
  int32_t rank;
  uint8_t code;  // 0 signed, 1 unsigned, 2 float, 4 bfloat, 5 complex, 6 bool, ...
  uint8_t bits;
  uint16_t lanes;
  int64_t* shape;
  int64_t* strides;  // in elements; NULL for dense and row-major
  uint64_t byte_offset;
} dlpack_tensor;

typedef struct dlpack_managed {
  dlpack_tensor tensor;
  void* context;
  void (*deleter)(struct dlpack_managed* self);
} dlpack_managed;

typedef struct dlpack_managed_versioned {
  uint32_t major;
  uint32_t minor;
  void* context;
  void (*deleter)(struct dlpack_managed_versioned* self);
  uint64_t flags;  // bit 0: read-only, bit 1: a copy
  dlpack_tensor tensor;
} dlpack_managed_versioned;
