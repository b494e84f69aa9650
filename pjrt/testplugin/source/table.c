// The function table. Every function goes through fault injection.
#include "testplugin.h"

PJRT_Extension_Base *link_extensions(const char *names, size_t size);

// Errors cannot fail to be destroyed or read.
static void Error_Destroy(PJRT_Error_Destroy_Args *a) {
  if (a->error != NULL) unmake(LIVE_ERRORS, a->error);
}
static void Error_Message(PJRT_Error_Message_Args *a) {
  a->message = a->error->message;
  a->message_size = strlen(a->message);
}
static ENTRY(Error_GetCode) { a->code = a->error->code; return NULL; }
static ENTRY(Error_ForEachPayload) {
  a->visitor("test.Detail", 11, a->error->message, strlen(a->error->message), a->user_arg);
  return NULL;
}

// The functions of the other files.
#define OTHERS(F) \
  F(Plugin_Initialize) F(Plugin_Attributes) F(Event_Destroy) F(Event_IsReady) F(Event_Error) F(Event_Await) \
  F(Event_OnReady) F(Client_Create) F(Client_Destroy) F(Client_PlatformName) F(Client_ProcessIndex) \
  F(Client_PlatformVersion) F(Client_Devices) F(Client_AddressableDevices) F(Client_LookupDevice) \
  F(Client_LookupAddressableDevice) F(Client_AddressableMemories) F(Client_Compile) \
  F(Client_DefaultDeviceAssignment) F(Client_BufferFromHostBuffer) F(DeviceDescription_Id) \
  F(DeviceDescription_ProcessIndex) F(DeviceDescription_Attributes) F(DeviceDescription_Kind) \
  F(DeviceDescription_DebugString) F(DeviceDescription_ToString) F(Device_GetDescription) \
  F(Device_IsAddressable) F(Device_LocalHardwareId) F(Device_AddressableMemories) F(Device_DefaultMemory) \
  F(Device_MemoryStats) F(Memory_Id) F(Memory_Kind) F(Memory_DebugString) F(Memory_ToString) \
  F(Memory_AddressableByDevices) F(Executable_Destroy) F(Executable_Name) F(Executable_NumReplicas) \
  F(Executable_NumPartitions) F(Executable_NumOutputs) F(Executable_SizeOfGeneratedCodeInBytes) \
  F(Executable_GetCostAnalysis) F(Executable_OutputMemoryKinds) F(Executable_OptimizedProgram) \
  F(Executable_Serialize) F(LoadedExecutable_Destroy) F(LoadedExecutable_GetExecutable) \
  F(LoadedExecutable_AddressableDevices) F(LoadedExecutable_Delete) F(LoadedExecutable_IsDeleted) \
  F(LoadedExecutable_Execute) F(Executable_DeserializeAndLoad) F(LoadedExecutable_Fingerprint) \
  F(Buffer_Destroy) F(Buffer_ElementType) F(Buffer_Dimensions) F(Buffer_UnpaddedDimensions) \
  F(Buffer_DynamicDimensionIndices) F(Buffer_GetMemoryLayout) F(Buffer_OnDeviceSizeInBytes) \
  F(Buffer_Device) F(Buffer_Memory) F(Buffer_Delete) F(Buffer_IsDeleted) F(Buffer_CopyToDevice) \
  F(Buffer_ToHostBuffer) F(Buffer_IsOnCpu) F(Buffer_ReadyEvent) F(Buffer_UnsafePointer) \
  F(Buffer_IncreaseExternalReferenceCount) F(Buffer_DecreaseExternalReferenceCount) \
  F(Buffer_OpaqueDeviceMemoryDataPointer) F(TopologyDescription_Create) F(TopologyDescription_Destroy) \
  F(TopologyDescription_PlatformName) F(TopologyDescription_PlatformVersion) \
  F(TopologyDescription_GetDeviceDescriptions) F(TopologyDescription_Serialize) \
  F(TopologyDescription_Attributes) F(Compile) F(Executable_OutputElementTypes) \
  F(Executable_OutputDimensions) F(Buffer_CopyToMemory) F(Client_CreateViewOfDeviceBuffer) \
  F(Executable_Fingerprint) F(Client_TopologyDescription) F(Executable_GetCompiledMemoryStats) \
  F(Memory_Kind_Id) F(ExecuteContext_Create) F(ExecuteContext_Destroy) F(Buffer_CopyRawToHost) \
  F(AsyncHostToDeviceTransferManager_Destroy) F(AsyncHostToDeviceTransferManager_TransferData) \
  F(Client_CreateBuffersForAsyncHostToDevice) F(AsyncHostToDeviceTransferManager_RetrieveBuffer) \
  F(AsyncHostToDeviceTransferManager_Device) F(AsyncHostToDeviceTransferManager_BufferCount) \
  F(AsyncHostToDeviceTransferManager_BufferSize) F(AsyncHostToDeviceTransferManager_SetBufferError) \
  F(AsyncHostToDeviceTransferManager_AddMetadata) F(Client_DmaMap) F(Client_DmaUnmap) \
  F(Client_CreateUninitializedBuffer) F(Client_UpdateGlobalProcessInfo) F(TopologyDescription_Deserialize) \
  F(Client_CreateAliasBuffer) F(Client_FulfillAliasBuffer) F(LoadedExecutable_GetDeviceAssignment) \
  F(Client_CreateErrorBuffer) F(AsyncHostToDeviceTransferManager_TransferLiteral) \
  F(Buffer_CopyRawToHostFuture) F(Device_PoisonExecution) F(Device_CreateAsyncTrackingEvent) \
  F(AsyncTrackingEvent_Destroy) F(Executable_GetCompileOptions) F(Buffer_DonateWithControlDependency) \
  F(Event_Create) F(Event_Set) F(Device_GetAttributes) F(Client_Load) \
  F(LoadedExecutable_AddressableDeviceLogicalIds) F(Buffer_Bitcast) F(TopologyDescription_Fingerprint) \
  F(Executable_ParameterMemoryKinds) F(Device_ClearMemoryStats) \
  F(TopologyDescription_MakeCanonicalShapeForMemorySpace) F(TopologyDescription_GetMemorySpaceKindIds) \
  F(CopyToDeviceStream_Destroy) F(CopyToDeviceStream_AddChunk) F(CopyToDeviceStream_TotalBytes) \
  F(CopyToDeviceStream_GranuleSize) F(CopyToDeviceStream_CurrentBytes)
OTHERS(DECLARE)

static void *const implementations[FN_COUNT] = {
#define IMPLEMENTATION(name) [FN_##name] = (void *)name,
    PJRT_FUNCTIONS(IMPLEMENTATION)
#undef IMPLEMENTATION
};

// What ends something, or is the only way to do so, does it and fails afterwards.
static bool acts_first(int function, const char *name) {
  return strstr(name, "_Destroy") != NULL || function == FN_Client_FulfillAliasBuffer;
}

static PJRT_Error *guarded(int function, const char *name, void *args) {
  int code = (int)options.fail[function];
  take_time(function);
  if (options.crash[function]) {
    fprintf(stderr, "the test asked for a crash in %s\n", name);
    abort();
  }
  if (code != 0 && function != FN_Client_Create && !acts_first(function, name)) return asked(code);
  PJRT_Error *(*f)(void *);
  *(void **)&f = implementations[function];
  PJRT_Error *error = f(args);
  if (error == NULL && code != 0 && acts_first(function, name)) return asked(code);
  return error;
}

#define GUARD(name) \
  static PJRT_Error *guarded_##name(void *args) { return guarded(FN_##name, #name, args); }
PJRT_FUNCTIONS(GUARD)
#undef GUARD

static PJRT_Api api;

void limit_functions(int64_t count) { api.struct_size = offsetof(PJRT_Api, functions) + (size_t)count * sizeof(void *); }

void report_minor(int64_t minor) { api.pjrt_api_version.minor_version = (int)minor; }

void offer_extensions(const char *names, size_t size) { api.extension_start = link_extensions(names, size); }

// What no plugin can do without.
#define REQUIRED(F) \
  F(Error_Destroy) F(Error_Message) F(Error_GetCode) F(Plugin_Initialize) F(Event_Destroy) F(Event_IsReady) \
  F(Event_Error) F(Event_Await) F(Event_OnReady) F(Client_Create) F(Client_Destroy) F(Client_PlatformName) \
  F(Client_PlatformVersion) F(Client_ProcessIndex) F(Client_Devices) F(Client_AddressableDevices) F(Client_Compile) \
  F(Client_BufferFromHostBuffer) F(DeviceDescription_Id) F(DeviceDescription_ProcessIndex) F(DeviceDescription_Kind) \
  F(DeviceDescription_ToString) F(Device_GetDescription) F(Device_IsAddressable) F(Executable_Destroy) \
  F(Executable_Name) F(Executable_NumOutputs) F(LoadedExecutable_Destroy) F(LoadedExecutable_GetExecutable) \
  F(LoadedExecutable_AddressableDevices) F(LoadedExecutable_Execute) F(Buffer_Destroy) F(Buffer_ElementType) \
  F(Buffer_Dimensions) F(Buffer_OnDeviceSizeInBytes) F(Buffer_Delete) F(Buffer_IsDeleted) F(Buffer_ReadyEvent) \
  F(Buffer_UnsafePointer) F(Buffer_IncreaseExternalReferenceCount) F(Buffer_DecreaseExternalReferenceCount) \
  F(Buffer_ToHostBuffer)

static void lack_optional(void) {
  void *required[FN_COUNT] = {NULL};
#define KEEP(name) required[FN_##name] = api.functions[FN_##name];
  REQUIRED(KEEP)
#undef KEEP
  memcpy(api.functions, required, sizeof(required));
  api.extension_start = NULL;
}

void lack_function(const char *name, size_t size) {
  if (size == 8 && memcmp(name, "optional", 8) == 0) {
    lack_optional();
    return;
  }
  static const char *const names[FN_COUNT] = {
#define NAME(name) #name,
      PJRT_FUNCTIONS(NAME)
#undef NAME
  };
  for (int i = 0; i < FN_COUNT; i++)
    if (strlen(names[i]) == size && memcmp(names[i], name, size) == 0) api.functions[i] = NULL;
}

void reset_table(void) {
  api.struct_size = sizeof(api);
  api.extension_start = link_extensions(NULL, 0);
  api.pjrt_api_version = (PJRT_Api_Version){.struct_size = sizeof(api.pjrt_api_version), .major_version = PJRT_MAJOR, .minor_version = PJRT_KNOWN_MINOR};
#define HAS(name) api.functions[FN_##name] = (void *)guarded_##name;
  PJRT_FUNCTIONS(HAS)
#undef HAS
  api.functions[FN_Error_Destroy] = (void *)Error_Destroy;
  api.functions[FN_Error_Message] = (void *)Error_Message;
}

__attribute__((visibility("default"))) const PJRT_Api *GetPjrtApi(void) {
  reset_options();
  reset_table();
  read_environment();
  return &api;
}
