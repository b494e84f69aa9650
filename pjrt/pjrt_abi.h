// The PJRT C interface up to version 0.115, declared by ourselves.
//
// Names, field order and field types are the published binary interface (versions 0.81 and newer)
// and may not change. abi_fields.h lists every field again, and a test compares all offsets and
// sizes with those of a published header.
#ifndef XLA_GO_PJRT_ABI_H_
#define XLA_GO_PJRT_ABI_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi_functions.h"

#define PJRT_MAJOR 0
// All fields that are declared here are known; abi_table.c knows fewer of an older header.
#define PJRT_KNOWN_MINOR 115

// FN_Error_Destroy and so on: positions in the table.
enum {
#define PJRT_POSITION(name) FN_##name,
  PJRT_FUNCTIONS(PJRT_POSITION)
#undef PJRT_POSITION
  FN_COUNT
};

typedef struct PJRT_Error PJRT_Error;
typedef struct PJRT_Event PJRT_Event;
typedef struct PJRT_Client PJRT_Client;
typedef struct PJRT_Device PJRT_Device;
typedef struct PJRT_DeviceDescription PJRT_DeviceDescription;
typedef struct PJRT_Memory PJRT_Memory;
typedef struct PJRT_Buffer PJRT_Buffer;
typedef struct PJRT_Executable PJRT_Executable;
typedef struct PJRT_LoadedExecutable PJRT_LoadedExecutable;
typedef struct PJRT_TopologyDescription PJRT_TopologyDescription;
typedef struct PJRT_SerializedExecutable PJRT_SerializedExecutable;
typedef struct PJRT_SerializedTopology PJRT_SerializedTopology;
typedef struct PJRT_ExecuteContext PJRT_ExecuteContext;
typedef struct PJRT_AsyncHostToDeviceTransferManager PJRT_AsyncHostToDeviceTransferManager;
typedef struct PJRT_AsyncTrackingEvent PJRT_AsyncTrackingEvent;
typedef struct PJRT_CopyToDeviceStream PJRT_CopyToDeviceStream;
typedef struct PJRT_DeviceAssignmentSerialized PJRT_DeviceAssignmentSerialized;
typedef struct PJRT_Device_Attributes PJRT_Device_Attributes;
typedef struct PJRT_FulfillAliasBufferCallback PJRT_FulfillAliasBufferCallback;
typedef struct PJRT_SerializedCompileOptions PJRT_SerializedCompileOptions;

// Makes an error for a plugin whose callback failed.
typedef PJRT_Error *(*PJRT_CallbackError)(int code, const char *message, size_t message_size);

// Every struct of the interface starts with its size as the caller knows it and a list of
// extensions, which is empty in all that this package sends.
#define PJRT_HEAD     \
  size_t struct_size; \
  void *extension_start

typedef struct PJRT_Api_Version {
  PJRT_HEAD;
  int major_version, minor_version;
} PJRT_Api_Version;

typedef struct PJRT_Api {
  PJRT_HEAD;
  PJRT_Api_Version pjrt_api_version;
  void *functions[FN_COUNT];
} PJRT_Api;

// ---- errors and values ----
typedef struct PJRT_Error_Destroy_Args { PJRT_HEAD; PJRT_Error *error; } PJRT_Error_Destroy_Args;
typedef struct PJRT_Error_Message_Args {
  PJRT_HEAD;
  const PJRT_Error *error;
  const char *message;
  size_t message_size;
} PJRT_Error_Message_Args;
typedef struct PJRT_Error_GetCode_Args {
  PJRT_HEAD;
  const PJRT_Error *error;
  int code;
} PJRT_Error_GetCode_Args;

enum { VALUE_STRING = 0, VALUE_INT64 = 1, VALUE_INT64_LIST = 2, VALUE_FLOAT = 3, VALUE_BOOL = 4 };

typedef struct PJRT_NamedValue {
  PJRT_HEAD;
  const char *name;
  size_t name_size;
  int type;
  union {
    const char *string_value;
    int64_t int64_value;
    const int64_t *int64_array_value;
    float float_value;
    bool bool_value;
  };
  size_t value_size;
} PJRT_NamedValue;

// ---- plugin ----
typedef struct PJRT_Plugin_Initialize_Args { PJRT_HEAD; } PJRT_Plugin_Initialize_Args;
typedef struct PJRT_Plugin_Attributes_Args {
  PJRT_HEAD;
  const PJRT_NamedValue *attributes;
  size_t num_attributes;
} PJRT_Plugin_Attributes_Args;

// ---- events ----
typedef struct PJRT_Event_Destroy_Args { PJRT_HEAD; PJRT_Event *event; } PJRT_Event_Destroy_Args;
typedef struct PJRT_Event_IsReady_Args { PJRT_HEAD; PJRT_Event *event; bool is_ready; } PJRT_Event_IsReady_Args;
typedef struct PJRT_Event_Error_Args { PJRT_HEAD; PJRT_Event *event; } PJRT_Event_Error_Args;
typedef struct PJRT_Event_Await_Args { PJRT_HEAD; PJRT_Event *event; } PJRT_Event_Await_Args;
typedef struct PJRT_Event_OnReady_Args {
  PJRT_HEAD;
  PJRT_Event *event;
  void (*callback)(PJRT_Error *error, void *user_arg);
  void *user_arg;
} PJRT_Event_OnReady_Args;

// ---- client ----
typedef struct PJRT_Client_Create_Args {
  PJRT_HEAD;
  const PJRT_NamedValue *create_options;
  size_t num_options;
  void *kv_get_callback, *kv_get_user_arg;
  void *kv_put_callback, *kv_put_user_arg;
  PJRT_Client *client;
  void *kv_try_get_callback, *kv_try_get_user_arg;
} PJRT_Client_Create_Args;
typedef struct PJRT_Client_Destroy_Args { PJRT_HEAD; PJRT_Client *client; } PJRT_Client_Destroy_Args;
typedef struct PJRT_Client_PlatformName_Args {
  PJRT_HEAD;
  PJRT_Client *client;
  const char *platform_name;
  size_t platform_name_size;
} PJRT_Client_PlatformName_Args;
typedef struct PJRT_Client_PlatformVersion_Args {
  PJRT_HEAD;
  PJRT_Client *client;
  const char *platform_version;
  size_t platform_version_size;
} PJRT_Client_PlatformVersion_Args;
typedef struct PJRT_Client_ProcessIndex_Args { PJRT_HEAD; PJRT_Client *client; int process_index; } PJRT_Client_ProcessIndex_Args;
typedef struct PJRT_Client_TopologyDescription_Args {
  PJRT_HEAD;
  PJRT_Client *client;
  PJRT_TopologyDescription *topology;
} PJRT_Client_TopologyDescription_Args;
typedef struct PJRT_Client_Devices_Args {
  PJRT_HEAD;
  PJRT_Client *client;
  PJRT_Device *const *devices;
  size_t num_devices;
} PJRT_Client_Devices_Args;
typedef struct PJRT_Client_AddressableDevices_Args {
  PJRT_HEAD;
  PJRT_Client *client;
  PJRT_Device *const *addressable_devices;
  size_t num_addressable_devices;
} PJRT_Client_AddressableDevices_Args;
typedef struct PJRT_Program {
  PJRT_HEAD;
  char *code;
  size_t code_size;
  const char *format;
  size_t format_size;
} PJRT_Program;
typedef struct PJRT_Client_Compile_Args {
  PJRT_HEAD;
  PJRT_Client *client;
  const PJRT_Program *program;
  const char *compile_options;
  size_t compile_options_size;
  PJRT_LoadedExecutable *executable;
} PJRT_Client_Compile_Args;
typedef struct PJRT_TopologyDescription_Serialize_Args {
  PJRT_HEAD;
  PJRT_TopologyDescription *topology;
  const char *serialized_bytes;
  size_t serialized_bytes_size;
  PJRT_SerializedTopology *serialized_topology;
  void (*serialized_topology_deleter)(PJRT_SerializedTopology *);
} PJRT_TopologyDescription_Serialize_Args;

// ---- devices and memories ----
typedef struct PJRT_DeviceDescription_Id_Args { PJRT_HEAD; PJRT_DeviceDescription *device_description; int id; } PJRT_DeviceDescription_Id_Args;
typedef struct PJRT_DeviceDescription_ProcessIndex_Args {
  PJRT_HEAD;
  PJRT_DeviceDescription *device_description;
  int process_index;
} PJRT_DeviceDescription_ProcessIndex_Args;
typedef struct PJRT_DeviceDescription_Attributes_Args {
  PJRT_HEAD;
  PJRT_DeviceDescription *device_description;
  size_t num_attributes;
  const PJRT_NamedValue *attributes;
} PJRT_DeviceDescription_Attributes_Args;
typedef struct PJRT_DeviceDescription_Kind_Args {
  PJRT_HEAD;
  PJRT_DeviceDescription *device_description;
  const char *device_kind;
  size_t device_kind_size;
} PJRT_DeviceDescription_Kind_Args;
typedef struct PJRT_DeviceDescription_ToString_Args {
  PJRT_HEAD;
  PJRT_DeviceDescription *device_description;
  const char *to_string;
  size_t to_string_size;
} PJRT_DeviceDescription_ToString_Args;
typedef struct PJRT_Device_GetDescription_Args {
  PJRT_HEAD;
  PJRT_Device *device;
  PJRT_DeviceDescription *device_description;
} PJRT_Device_GetDescription_Args;
typedef struct PJRT_Device_IsAddressable_Args { PJRT_HEAD; PJRT_Device *device; bool is_addressable; } PJRT_Device_IsAddressable_Args;
typedef struct PJRT_Device_LocalHardwareId_Args { PJRT_HEAD; PJRT_Device *device; int local_hardware_id; } PJRT_Device_LocalHardwareId_Args;
typedef struct PJRT_Device_AddressableMemories_Args {
  PJRT_HEAD;
  PJRT_Device *device;
  PJRT_Memory *const *memories;
  size_t num_memories;
} PJRT_Device_AddressableMemories_Args;
typedef struct PJRT_Device_DefaultMemory_Args { PJRT_HEAD; PJRT_Device *device; PJRT_Memory *memory; } PJRT_Device_DefaultMemory_Args;
typedef struct PJRT_Device_MemoryStats_Args {
  PJRT_HEAD;
  PJRT_Device *device;
  int64_t bytes_in_use;
  int64_t peak_bytes_in_use;
  bool peak_bytes_in_use_is_set;
  int64_t num_allocs;
  bool num_allocs_is_set;
  int64_t largest_alloc_size;
  bool largest_alloc_size_is_set;
  int64_t bytes_limit;
  bool bytes_limit_is_set;
  int64_t bytes_reserved;
  bool bytes_reserved_is_set;
  int64_t peak_bytes_reserved;
  bool peak_bytes_reserved_is_set;
  int64_t bytes_reservable_limit;
  bool bytes_reservable_limit_is_set;
  int64_t largest_free_block_bytes;
  bool largest_free_block_bytes_is_set;
  int64_t pool_bytes;
  bool pool_bytes_is_set;
  int64_t peak_pool_bytes;
  bool peak_pool_bytes_is_set;
  int64_t peak_allocated_bytes;
  bool peak_allocated_bytes_is_set;
} PJRT_Device_MemoryStats_Args;
typedef struct PJRT_Memory_Id_Args { PJRT_HEAD; PJRT_Memory *memory; int id; } PJRT_Memory_Id_Args;
typedef struct PJRT_Memory_Kind_Args {
  PJRT_HEAD;
  PJRT_Memory *memory;
  const char *kind;
  size_t kind_size;
} PJRT_Memory_Kind_Args;

// ---- executables ----
typedef struct PJRT_Executable_Destroy_Args { PJRT_HEAD; PJRT_Executable *executable; } PJRT_Executable_Destroy_Args;
typedef struct PJRT_LoadedExecutable_Destroy_Args { PJRT_HEAD; PJRT_LoadedExecutable *executable; } PJRT_LoadedExecutable_Destroy_Args;
typedef struct PJRT_LoadedExecutable_GetExecutable_Args {
  PJRT_HEAD;
  PJRT_LoadedExecutable *loaded_executable;
  PJRT_Executable *executable;
} PJRT_LoadedExecutable_GetExecutable_Args;
typedef struct PJRT_LoadedExecutable_AddressableDevices_Args {
  PJRT_HEAD;
  PJRT_LoadedExecutable *executable;
  PJRT_Device *const *addressable_devices;
  size_t num_addressable_devices;
} PJRT_LoadedExecutable_AddressableDevices_Args;
typedef struct PJRT_Executable_Name_Args {
  PJRT_HEAD;
  PJRT_Executable *executable;
  const char *executable_name;
  size_t executable_name_size;
} PJRT_Executable_Name_Args;
typedef struct PJRT_Executable_NumOutputs_Args { PJRT_HEAD; PJRT_Executable *executable; size_t num_outputs; } PJRT_Executable_NumOutputs_Args;
typedef struct PJRT_Executable_OptimizedProgram_Args {
  PJRT_HEAD;
  PJRT_Executable *executable;
  PJRT_Program *program;
} PJRT_Executable_OptimizedProgram_Args;
typedef struct PJRT_Executable_OutputElementTypes_Args {
  PJRT_HEAD;
  PJRT_Executable *executable;
  int *output_types;
  size_t num_output_types;
} PJRT_Executable_OutputElementTypes_Args;
typedef struct PJRT_Executable_OutputDimensions_Args {
  PJRT_HEAD;
  PJRT_Executable *executable;
  size_t num_outputs;
  const int64_t *dims;
  const size_t *dim_sizes;
} PJRT_Executable_OutputDimensions_Args;
typedef struct PJRT_Executable_GetCompiledMemoryStats_Args {
  PJRT_HEAD;
  PJRT_Executable *executable;
  int64_t generated_code_size_in_bytes;
  int64_t argument_size_in_bytes;
  int64_t output_size_in_bytes;
  int64_t alias_size_in_bytes;
  int64_t temp_size_in_bytes;
  int64_t host_generated_code_size_in_bytes;
  int64_t host_argument_size_in_bytes;
  int64_t host_output_size_in_bytes;
  int64_t host_alias_size_in_bytes;
  int64_t host_temp_size_in_bytes;
  int64_t peak_memory_in_bytes;
  int64_t total_size_in_bytes;
  int64_t total_allocation_bytes;
  int64_t indefinite_allocations;
  int64_t peak_unpadded_heap_bytes;
} PJRT_Executable_GetCompiledMemoryStats_Args;
typedef struct PJRT_Executable_Serialize_Args {
  PJRT_HEAD;
  const PJRT_Executable *executable;
  const char *serialized_bytes;
  size_t serialized_bytes_size;
  PJRT_SerializedExecutable *serialized_executable;
  void (*serialized_executable_deleter)(PJRT_SerializedExecutable *);
} PJRT_Executable_Serialize_Args;
typedef struct PJRT_Executable_DeserializeAndLoad_Args {
  PJRT_HEAD;
  PJRT_Client *client;
  const char *serialized_executable;
  size_t serialized_executable_size;
  PJRT_LoadedExecutable *loaded_executable;
  const char *overridden_serialized_compile_options;
  size_t overridden_serialized_compile_options_size;
  struct PJRT_LoadOptions *load_options;
} PJRT_Executable_DeserializeAndLoad_Args;
typedef struct PJRT_Executable_Fingerprint_Args {
  PJRT_HEAD;
  PJRT_Executable *executable;
  const char *executable_fingerprint;
  size_t executable_fingerprint_size;
} PJRT_Executable_Fingerprint_Args;
typedef struct PJRT_ExecuteOptions {
  PJRT_HEAD;
  void **send_callbacks, **recv_callbacks;
  size_t num_send_ops, num_recv_ops;
  int launch_id;
  const int64_t *non_donatable_input_indices;
  size_t num_non_donatable_input_indices;
  PJRT_ExecuteContext *context;
  const char *call_location;
  size_t num_tasks;
  int *task_ids;
  int64_t *incarnation_ids;
  void *multi_slice_config;
  bool use_major_to_minor_data_layout_for_callbacks;
  void *hlo_output_callbacks;
  size_t num_hlo_output_callbacks;
} PJRT_ExecuteOptions;
typedef struct PJRT_LoadedExecutable_Execute_Args {
  PJRT_HEAD;
  PJRT_LoadedExecutable *executable;
  PJRT_ExecuteOptions *options;
  PJRT_Buffer *const *const *argument_lists;
  size_t num_devices, num_args;
  PJRT_Buffer **const *output_lists;
  PJRT_Event **device_complete_events;
  PJRT_Device *execute_device;
} PJRT_LoadedExecutable_Execute_Args;

// ---- buffers ----
enum {
  HOST_IMMUTABLE_ONLY_DURING_CALL = 0,
  HOST_IMMUTABLE_UNTIL_TRANSFER_COMPLETES = 1,
  HOST_IMMUTABLE_ZERO_COPY = 2,
  HOST_MUTABLE_ZERO_COPY = 3
};
enum { LAYOUT_TILED = 0, LAYOUT_STRIDES = 1 };
typedef struct PJRT_Buffer_MemoryLayout_Tiled {
  PJRT_HEAD;
  const int64_t *minor_to_major;
  size_t minor_to_major_size;
  const int64_t *tile_dims;
  const size_t *tile_dim_sizes;
  size_t num_tiles;
} PJRT_Buffer_MemoryLayout_Tiled;
typedef struct PJRT_Buffer_MemoryLayout_Strides {
  PJRT_HEAD;
  const int64_t *byte_strides;
  size_t num_byte_strides;
} PJRT_Buffer_MemoryLayout_Strides;
typedef struct PJRT_Buffer_MemoryLayout {
  PJRT_HEAD;
  union {
    PJRT_Buffer_MemoryLayout_Tiled tiled;
    PJRT_Buffer_MemoryLayout_Strides strides;
  };
  int type;
} PJRT_Buffer_MemoryLayout;
typedef struct PJRT_Client_BufferFromHostBuffer_Args {
  PJRT_HEAD;
  PJRT_Client *client;
  const void *data;
  int type;
  const int64_t *dims;
  size_t num_dims;
  const int64_t *byte_strides;
  size_t num_byte_strides;
  int host_buffer_semantics;
  PJRT_Device *device;
  PJRT_Memory *memory;
  PJRT_Buffer_MemoryLayout *device_layout;
  PJRT_Event *done_with_host_buffer;
  PJRT_Buffer *buffer;
} PJRT_Client_BufferFromHostBuffer_Args;
typedef struct PJRT_Client_CreateViewOfDeviceBuffer_Args {
  PJRT_HEAD;
  PJRT_Client *client;
  void *device_buffer_ptr;
  const int64_t *dims;
  size_t num_dims;
  int element_type;
  PJRT_Buffer_MemoryLayout *layout;
  PJRT_Device *device;
  void (*on_delete_callback)(void *device_buffer_ptr, void *user_arg);
  void *on_delete_callback_arg;
  intptr_t stream;
  PJRT_Buffer *buffer;
  PJRT_Memory *memory;
} PJRT_Client_CreateViewOfDeviceBuffer_Args;
typedef struct PJRT_Buffer_Destroy_Args { PJRT_HEAD; PJRT_Buffer *buffer; } PJRT_Buffer_Destroy_Args;
typedef struct PJRT_Buffer_Delete_Args { PJRT_HEAD; PJRT_Buffer *buffer; } PJRT_Buffer_Delete_Args;
typedef struct PJRT_Buffer_ElementType_Args { PJRT_HEAD; PJRT_Buffer *buffer; int type; } PJRT_Buffer_ElementType_Args;
typedef struct PJRT_Buffer_Dimensions_Args {
  PJRT_HEAD;
  PJRT_Buffer *buffer;
  const int64_t *dims;
  size_t num_dims;
} PJRT_Buffer_Dimensions_Args;
typedef struct PJRT_Buffer_GetMemoryLayout_Args {
  PJRT_HEAD;
  PJRT_Buffer *buffer;
  PJRT_Buffer_MemoryLayout layout;
} PJRT_Buffer_GetMemoryLayout_Args;
typedef struct PJRT_Buffer_ToHostBuffer_Args {
  PJRT_HEAD;
  PJRT_Buffer *src;
  PJRT_Buffer_MemoryLayout *host_layout;
  void *dst;
  size_t dst_size;
  PJRT_Event *event;
} PJRT_Buffer_ToHostBuffer_Args;
typedef struct PJRT_Buffer_OnDeviceSizeInBytes_Args {
  PJRT_HEAD;
  PJRT_Buffer *buffer;
  size_t on_device_size_in_bytes;
} PJRT_Buffer_OnDeviceSizeInBytes_Args;
typedef struct PJRT_Buffer_IsDeleted_Args { PJRT_HEAD; PJRT_Buffer *buffer; bool is_deleted; } PJRT_Buffer_IsDeleted_Args;
typedef struct PJRT_Buffer_CopyToDevice_Args {
  PJRT_HEAD;
  PJRT_Buffer *buffer;
  PJRT_Device *dst_device;
  PJRT_Buffer *dst_buffer;
} PJRT_Buffer_CopyToDevice_Args;
typedef struct PJRT_Buffer_CopyToMemory_Args {
  PJRT_HEAD;
  PJRT_Buffer *buffer;
  PJRT_Memory *dst_memory;
  PJRT_Buffer *dst_buffer;
} PJRT_Buffer_CopyToMemory_Args;
typedef struct PJRT_Buffer_Device_Args { PJRT_HEAD; PJRT_Buffer *buffer; PJRT_Device *device; } PJRT_Buffer_Device_Args;
typedef struct PJRT_Buffer_Memory_Args { PJRT_HEAD; PJRT_Buffer *buffer; PJRT_Memory *memory; } PJRT_Buffer_Memory_Args;
typedef struct PJRT_Buffer_ReadyEvent_Args { PJRT_HEAD; PJRT_Buffer *buffer; PJRT_Event *event; } PJRT_Buffer_ReadyEvent_Args;
typedef struct PJRT_Buffer_UnsafePointer_Args { PJRT_HEAD; PJRT_Buffer *buffer; uintptr_t buffer_pointer; } PJRT_Buffer_UnsafePointer_Args;
typedef struct PJRT_Buffer_IncreaseExternalReferenceCount_Args { PJRT_HEAD; PJRT_Buffer *buffer; } PJRT_Buffer_IncreaseExternalReferenceCount_Args;
typedef struct PJRT_Buffer_DecreaseExternalReferenceCount_Args { PJRT_HEAD; PJRT_Buffer *buffer; } PJRT_Buffer_DecreaseExternalReferenceCount_Args;

#include "abi_descriptions.h"
#include "abi_extensions.h"
#include "abi_key_value.h"
#include "abi_transfers.h"

// S_<struct>: the size to send, the end of the last field that is known here (not sizeof, which
// counts the padding behind it).
enum {
#define PJRT_STRUCT(name, last) S_##name = offsetof(name, last) + sizeof(((name *)0)->last),
#define PJRT_FIELD(name, field)
#include "abi_fields.h"
#include "abi_fields_extensions.h"
#undef PJRT_STRUCT
#undef PJRT_FIELD
  S_END
};

#endif
