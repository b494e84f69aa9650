// What describes devices, memories, topologies and executables. Part of pjrt_abi.h, which includes it.
#ifndef XLA_GO_PJRT_ABI_DESCRIPTIONS_H_
#define XLA_GO_PJRT_ABI_DESCRIPTIONS_H_

typedef struct PJRT_LoadOptions {
  size_t struct_size;
  const int64_t *computation_origin;
  size_t computation_origin_size;
  void *multi_slice_config;
} PJRT_LoadOptions;
typedef struct PJRT_LogicalDeviceIds { int replica; int partition; } PJRT_LogicalDeviceIds;
typedef struct PJRT_ProcessInfo {
  size_t struct_size;
  int task_id;
  uint64_t incarnation_id;
  int state;
  int error_code;
  const char *error_message;
  size_t error_message_size;
} PJRT_ProcessInfo;
typedef struct PJRT_Client_AddressableMemories_Args {
  PJRT_HEAD;
  PJRT_Client *client;
  PJRT_Memory *const *addressable_memories;
  size_t num_addressable_memories;
} PJRT_Client_AddressableMemories_Args;
typedef struct PJRT_Client_DefaultDeviceAssignment_Args {
  PJRT_HEAD;
  PJRT_Client *client;
  int num_replicas;
  int num_partitions;
  size_t default_assignment_size;
  int *default_assignment;
} PJRT_Client_DefaultDeviceAssignment_Args;
typedef struct PJRT_Client_Load_Args {
  PJRT_HEAD;
  PJRT_Client *client;
  PJRT_Executable *executable;
  const char *compile_options;
  size_t compile_options_size;
  PJRT_LoadedExecutable *loaded_executable;
} PJRT_Client_Load_Args;
typedef struct PJRT_Client_LookupAddressableDevice_Args {
  PJRT_HEAD;
  PJRT_Client *client;
  int local_hardware_id;
  PJRT_Device *addressable_device;
} PJRT_Client_LookupAddressableDevice_Args;
typedef struct PJRT_Client_LookupDevice_Args {
  PJRT_HEAD;
  PJRT_Client *client;
  int id;
  PJRT_Device *device;
} PJRT_Client_LookupDevice_Args;
typedef struct PJRT_Client_UpdateGlobalProcessInfo_Args {
  PJRT_HEAD;
  PJRT_Client *client;
  PJRT_ProcessInfo *process_infos;
  size_t num_process_infos;
} PJRT_Client_UpdateGlobalProcessInfo_Args;
typedef struct PJRT_Compile_Args {
  PJRT_HEAD;
  const PJRT_TopologyDescription *topology;
  const PJRT_Program *program;
  const char *compile_options;
  size_t compile_options_size;
  PJRT_Client *client;
  PJRT_Executable *executable;
} PJRT_Compile_Args;
typedef struct PJRT_DeviceDescription_DebugString_Args {
  PJRT_HEAD;
  PJRT_DeviceDescription *device_description;
  const char *debug_string;
  size_t debug_string_size;
} PJRT_DeviceDescription_DebugString_Args;
typedef struct PJRT_Device_ClearMemoryStats_Args { PJRT_HEAD; PJRT_Device *device; } PJRT_Device_ClearMemoryStats_Args;
typedef struct PJRT_Device_GetAttributes_Args {
  PJRT_HEAD;
  PJRT_Device *device;
  const PJRT_NamedValue *attributes;
  size_t num_attributes;
  PJRT_Device_Attributes *device_attributes;
  void (*attributes_deleter)(PJRT_Device_Attributes *device_attributes);
} PJRT_Device_GetAttributes_Args;
typedef struct PJRT_Device_PoisonExecution_Args {
  PJRT_HEAD;
  PJRT_Device *device;
  int launch_id;
  int error_code;
  const char *error_message;
  size_t error_message_size;
  bool poisoned;
  const PJRT_NamedValue *payload;
  size_t num_payload;
} PJRT_Device_PoisonExecution_Args;
typedef struct PJRT_Error_ForEachPayload_Args {
  PJRT_HEAD;
  const PJRT_Error *error;
  void (*visitor)(const char *key, size_t key_size, const char *value, size_t value_size, void *user_arg);
  void *user_arg;
} PJRT_Error_ForEachPayload_Args;
typedef struct PJRT_Executable_GetCompileOptions_Args {
  PJRT_HEAD;
  PJRT_Executable *executable;
  const char *serialized_bytes;
  size_t serialized_bytes_size;
  PJRT_SerializedCompileOptions *serialized_compile_options;
  void (*serialized_compile_options_deleter)(PJRT_SerializedCompileOptions *options);
} PJRT_Executable_GetCompileOptions_Args;
typedef struct PJRT_Executable_GetCostAnalysis_Args {
  PJRT_HEAD;
  PJRT_Executable *executable;
  size_t num_properties;
  const PJRT_NamedValue *properties;
} PJRT_Executable_GetCostAnalysis_Args;
typedef struct PJRT_Executable_NumPartitions_Args {
  PJRT_HEAD;
  PJRT_Executable *executable;
  size_t num_partitions;
} PJRT_Executable_NumPartitions_Args;
typedef struct PJRT_Executable_NumReplicas_Args {
  PJRT_HEAD;
  PJRT_Executable *executable;
  size_t num_replicas;
} PJRT_Executable_NumReplicas_Args;
typedef struct PJRT_Executable_OutputMemoryKinds_Args {
  PJRT_HEAD;
  PJRT_Executable *executable;
  size_t num_outputs;
  const char *const *memory_kinds;
  const size_t *memory_kind_sizes;
} PJRT_Executable_OutputMemoryKinds_Args;
typedef struct PJRT_Executable_ParameterMemoryKinds_Args {
  PJRT_HEAD;
  PJRT_Executable *executable;
  size_t num_parameters;
  const char *const *memory_kinds;
  const size_t *memory_kind_sizes;
} PJRT_Executable_ParameterMemoryKinds_Args;
typedef struct PJRT_Executable_SizeOfGeneratedCodeInBytes_Args {
  PJRT_HEAD;
  PJRT_Executable *executable;
  int64_t size_in_bytes;
} PJRT_Executable_SizeOfGeneratedCodeInBytes_Args;
typedef struct PJRT_ExecuteContext_Create_Args {
  PJRT_HEAD;
  PJRT_ExecuteContext *context;
} PJRT_ExecuteContext_Create_Args;
typedef struct PJRT_ExecuteContext_Destroy_Args {
  PJRT_HEAD;
  PJRT_ExecuteContext *context;
} PJRT_ExecuteContext_Destroy_Args;
typedef struct PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args {
  PJRT_HEAD;
  PJRT_LoadedExecutable *executable;
  PJRT_LogicalDeviceIds *addressable_device_logical_ids;
  size_t num_addressable_device_logical_ids;
} PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args;
typedef struct PJRT_LoadedExecutable_Delete_Args {
  PJRT_HEAD;
  PJRT_LoadedExecutable *executable;
} PJRT_LoadedExecutable_Delete_Args;
typedef struct PJRT_LoadedExecutable_Fingerprint_Args {
  PJRT_HEAD;
  PJRT_LoadedExecutable *executable;
  const char *executable_fingerprint;
  size_t executable_fingerprint_size;
} PJRT_LoadedExecutable_Fingerprint_Args;
typedef struct PJRT_LoadedExecutable_GetDeviceAssignment_Args {
  PJRT_HEAD;
  PJRT_LoadedExecutable *executable;
  const char *serialized_bytes;
  size_t serialized_bytes_size;
  PJRT_DeviceAssignmentSerialized *serialized_device_assignment;
  void (*serialized_device_assignment_deleter)(PJRT_DeviceAssignmentSerialized *da);
} PJRT_LoadedExecutable_GetDeviceAssignment_Args;
typedef struct PJRT_LoadedExecutable_IsDeleted_Args {
  PJRT_HEAD;
  PJRT_LoadedExecutable *executable;
  bool is_deleted;
} PJRT_LoadedExecutable_IsDeleted_Args;
typedef struct PJRT_Memory_AddressableByDevices_Args {
  PJRT_HEAD;
  PJRT_Memory *memory;
  PJRT_Device *const *devices;
  size_t num_devices;
} PJRT_Memory_AddressableByDevices_Args;
typedef struct PJRT_Memory_DebugString_Args {
  PJRT_HEAD;
  PJRT_Memory *memory;
  const char *debug_string;
  size_t debug_string_size;
} PJRT_Memory_DebugString_Args;
typedef struct PJRT_Memory_Kind_Id_Args { PJRT_HEAD; PJRT_Memory *memory; int kind_id; } PJRT_Memory_Kind_Id_Args;
typedef struct PJRT_Memory_ToString_Args {
  PJRT_HEAD;
  PJRT_Memory *memory;
  const char *to_string;
  size_t to_string_size;
} PJRT_Memory_ToString_Args;
typedef struct PJRT_TopologyDescription_Attributes_Args {
  PJRT_HEAD;
  PJRT_TopologyDescription *topology;
  const PJRT_NamedValue *attributes;
  size_t num_attributes;
} PJRT_TopologyDescription_Attributes_Args;
typedef struct PJRT_TopologyDescription_Create_Args {
  PJRT_HEAD;
  const char *topology_name;
  size_t topology_name_size;
  const PJRT_NamedValue *create_options;
  size_t num_options;
  PJRT_TopologyDescription *topology;
} PJRT_TopologyDescription_Create_Args;
typedef struct PJRT_TopologyDescription_Deserialize_Args {
  PJRT_HEAD;
  const char *serialized_topology;
  size_t serialized_topology_size;
  PJRT_TopologyDescription *topology;
} PJRT_TopologyDescription_Deserialize_Args;
typedef struct PJRT_TopologyDescription_Destroy_Args {
  PJRT_HEAD;
  PJRT_TopologyDescription *topology;
} PJRT_TopologyDescription_Destroy_Args;
typedef struct PJRT_TopologyDescription_Fingerprint_Args {
  PJRT_HEAD;
  const PJRT_TopologyDescription *topology;
  uint64_t fingerprint;
} PJRT_TopologyDescription_Fingerprint_Args;
typedef struct PJRT_TopologyDescription_GetDeviceDescriptions_Args {
  PJRT_HEAD;
  const PJRT_TopologyDescription *topology;
  PJRT_DeviceDescription *const *descriptions;
  size_t num_descriptions;
} PJRT_TopologyDescription_GetDeviceDescriptions_Args;
typedef struct PJRT_TopologyDescription_GetMemorySpaceKindIds_Args {
  PJRT_HEAD;
  const PJRT_TopologyDescription *topology;
  const int *memory_space_kind_ids;
  size_t num_memory_space_kind_ids;
} PJRT_TopologyDescription_GetMemorySpaceKindIds_Args;
typedef struct PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args {
  PJRT_HEAD;
  const PJRT_TopologyDescription *topology;
  int memory_space_kind_id;
  const int64_t *dims;
  size_t num_dims;
  int element_type;
  PJRT_Buffer_MemoryLayout *layout;
  const char *serialized_shape;
  size_t serialized_shape_size;
  void (*serialized_shape_deleter)(const char *serialized_shape);
} PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args;
typedef struct PJRT_TopologyDescription_PlatformName_Args {
  PJRT_HEAD;
  const PJRT_TopologyDescription *topology;
  const char *platform_name;
  size_t platform_name_size;
} PJRT_TopologyDescription_PlatformName_Args;
typedef struct PJRT_TopologyDescription_PlatformVersion_Args {
  PJRT_HEAD;
  PJRT_TopologyDescription *topology;
  const char *platform_version;
  size_t platform_version_size;
} PJRT_TopologyDescription_PlatformVersion_Args;

#endif
