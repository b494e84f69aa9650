#ifndef XLA_GO_PJRT_ABI_FUNCTIONS_H_
#define XLA_GO_PJRT_ABI_FUNCTIONS_H_

// Every function, in the order of the table. New functions are only ever appended.
#define PJRT_FUNCTIONS_TO_0_81(F) \
  F(Error_Destroy) F(Error_Message) F(Error_GetCode) \
  F(Plugin_Initialize) F(Plugin_Attributes) \
  F(Event_Destroy) F(Event_IsReady) F(Event_Error) F(Event_Await) F(Event_OnReady) \
  F(Client_Create) F(Client_Destroy) F(Client_PlatformName) F(Client_ProcessIndex) \
  F(Client_PlatformVersion) F(Client_Devices) F(Client_AddressableDevices) F(Client_LookupDevice) \
  F(Client_LookupAddressableDevice) F(Client_AddressableMemories) F(Client_Compile) \
  F(Client_DefaultDeviceAssignment) F(Client_BufferFromHostBuffer) \
  F(DeviceDescription_Id) F(DeviceDescription_ProcessIndex) F(DeviceDescription_Attributes) \
  F(DeviceDescription_Kind) F(DeviceDescription_DebugString) F(DeviceDescription_ToString) \
  F(Device_GetDescription) F(Device_IsAddressable) F(Device_LocalHardwareId) \
  F(Device_AddressableMemories) F(Device_DefaultMemory) F(Device_MemoryStats) \
  F(Memory_Id) F(Memory_Kind) F(Memory_DebugString) F(Memory_ToString) F(Memory_AddressableByDevices) \
  F(Executable_Destroy) F(Executable_Name) F(Executable_NumReplicas) F(Executable_NumPartitions) \
  F(Executable_NumOutputs) F(Executable_SizeOfGeneratedCodeInBytes) F(Executable_GetCostAnalysis) \
  F(Executable_OutputMemoryKinds) F(Executable_OptimizedProgram) F(Executable_Serialize) \
  F(LoadedExecutable_Destroy) F(LoadedExecutable_GetExecutable) F(LoadedExecutable_AddressableDevices) \
  F(LoadedExecutable_Delete) F(LoadedExecutable_IsDeleted) F(LoadedExecutable_Execute) \
  F(Executable_DeserializeAndLoad) F(LoadedExecutable_Fingerprint) \
  F(Buffer_Destroy) F(Buffer_ElementType) F(Buffer_Dimensions) F(Buffer_UnpaddedDimensions) \
  F(Buffer_DynamicDimensionIndices) F(Buffer_GetMemoryLayout) F(Buffer_OnDeviceSizeInBytes) \
  F(Buffer_Device) F(Buffer_Memory) F(Buffer_Delete) F(Buffer_IsDeleted) F(Buffer_CopyToDevice) \
  F(Buffer_ToHostBuffer) F(Buffer_IsOnCpu) F(Buffer_ReadyEvent) F(Buffer_UnsafePointer) \
  F(Buffer_IncreaseExternalReferenceCount) F(Buffer_DecreaseExternalReferenceCount) \
  F(Buffer_OpaqueDeviceMemoryDataPointer) \
  F(CopyToDeviceStream_Destroy) F(CopyToDeviceStream_AddChunk) F(CopyToDeviceStream_TotalBytes) \
  F(CopyToDeviceStream_GranuleSize) F(CopyToDeviceStream_CurrentBytes) \
  F(TopologyDescription_Create) F(TopologyDescription_Destroy) F(TopologyDescription_PlatformName) \
  F(TopologyDescription_PlatformVersion) F(TopologyDescription_GetDeviceDescriptions) \
  F(TopologyDescription_Serialize) F(TopologyDescription_Attributes) F(Compile) \
  F(Executable_OutputElementTypes) F(Executable_OutputDimensions) F(Buffer_CopyToMemory) \
  F(Client_CreateViewOfDeviceBuffer) F(Executable_Fingerprint) F(Client_TopologyDescription) \
  F(Executable_GetCompiledMemoryStats) F(Memory_Kind_Id) F(ExecuteContext_Create) \
  F(ExecuteContext_Destroy) F(Buffer_CopyRawToHost) F(AsyncHostToDeviceTransferManager_Destroy) \
  F(AsyncHostToDeviceTransferManager_TransferData) F(Client_CreateBuffersForAsyncHostToDevice) \
  F(AsyncHostToDeviceTransferManager_RetrieveBuffer) F(AsyncHostToDeviceTransferManager_Device) \
  F(AsyncHostToDeviceTransferManager_BufferCount) F(AsyncHostToDeviceTransferManager_BufferSize) \
  F(AsyncHostToDeviceTransferManager_SetBufferError) F(AsyncHostToDeviceTransferManager_AddMetadata) \
  F(Client_DmaMap) F(Client_DmaUnmap) F(Client_CreateUninitializedBuffer) \
  F(Client_UpdateGlobalProcessInfo) F(TopologyDescription_Deserialize) F(Client_CreateAliasBuffer) \
  F(Client_FulfillAliasBuffer) F(LoadedExecutable_GetDeviceAssignment)

#define PJRT_FUNCTIONS_0_82_TO_0_104(F) \
  F(Client_CreateErrorBuffer) F(AsyncHostToDeviceTransferManager_TransferLiteral) \
  F(Buffer_CopyRawToHostFuture) F(Device_PoisonExecution) F(Device_CreateAsyncTrackingEvent) \
  F(AsyncTrackingEvent_Destroy) F(Executable_GetCompileOptions) F(Buffer_DonateWithControlDependency) \
  F(Event_Create) F(Event_Set) F(Device_GetAttributes) F(Client_Load) \
  F(LoadedExecutable_AddressableDeviceLogicalIds) F(Buffer_Bitcast) F(Error_ForEachPayload) \
  F(TopologyDescription_Fingerprint) F(Executable_ParameterMemoryKinds)

#define PJRT_FUNCTIONS_0_105_TO_0_115(F) \
  F(Device_ClearMemoryStats) F(TopologyDescription_MakeCanonicalShapeForMemorySpace) \
  F(TopologyDescription_GetMemorySpaceKindIds)

#define PJRT_FUNCTIONS(F) \
  PJRT_FUNCTIONS_TO_0_81(F) PJRT_FUNCTIONS_0_82_TO_0_104(F) PJRT_FUNCTIONS_0_105_TO_0_115(F)

#endif
