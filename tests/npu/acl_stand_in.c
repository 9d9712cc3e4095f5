/* Stands where CANN's libraries would be, so that the real torch_npu can be imported on a machine without an NPU.
 *
 * torch_npu's libraries are linked for the C functions below. Each says that it has succeeded and does nothing; those
 * whose answer is read give one. Nothing can be computed on such a device: tests use torch_npu's operator schemas, its
 * shape functions under FakeTensorMode, and kernels that they register for CPU tensors.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* How many devices there are: none, or as many as ACL_STAND_IN_DEVICES says. */
int aclrtGetDeviceCount(uint32_t *count) {
  const char *text = getenv("ACL_STAND_IN_DEVICES");
  *count = text ? (uint32_t)atoi(text) : 0;
  return 0;
}

int aclrtGetDevice(int32_t *device) {
  *device = 0;
  return 0;
}

const char *aclrtGetSocName(void) { return "Ascend910B3"; }

const char *aclGetRecentErrMsg(void) { return "no error: this is a stand-in for CANN"; }

int aclrtGetMemInfo(int attribute, size_t *free_bytes, size_t *total_bytes) {
  (void)attribute;
  *free_bytes = *total_bytes = (size_t)64 << 30;
  return 0;
}

#define DOES_NOTHING(name) \
  int name(void) { return 0; }

/* Start, end, devices, streams and events. */
DOES_NOTHING(aclInit)
DOES_NOTHING(aclFinalize)
DOES_NOTHING(aclGetDeviceCapability)
DOES_NOTHING(aclrtSetDevice)
DOES_NOTHING(aclrtResetDevice)
DOES_NOTHING(aclrtSetDeviceSatMode)
DOES_NOTHING(aclrtDeviceCanAccessPeer)
DOES_NOTHING(aclrtDeviceEnablePeerAccess)
DOES_NOTHING(aclrtDeviceGetBareTgid)
DOES_NOTHING(aclrtGetCurrentContext)
DOES_NOTHING(aclrtSetCurrentContext)
DOES_NOTHING(aclrtCreateStream)
DOES_NOTHING(aclrtCreateStreamWithConfig)
DOES_NOTHING(aclrtDestroyStream)
DOES_NOTHING(aclrtSynchronizeStream)
DOES_NOTHING(aclrtStreamWaitEvent)
DOES_NOTHING(aclrtCreateEventExWithFlag)
DOES_NOTHING(aclrtDestroyEvent)
DOES_NOTHING(aclrtEventElapsedTime)
DOES_NOTHING(aclrtRecordEvent)
DOES_NOTHING(aclrtResetEvent)
DOES_NOTHING(aclrtSynchronizeEvent)
DOES_NOTHING(aclrtProcessReport)

/* Memory. */
DOES_NOTHING(aclrtMalloc)
DOES_NOTHING(aclrtFree)
DOES_NOTHING(aclrtMallocHost)
DOES_NOTHING(aclrtFreeHost)
DOES_NOTHING(aclrtMallocPhysical)
DOES_NOTHING(aclrtFreePhysical)
DOES_NOTHING(aclrtReserveMemAddress)
DOES_NOTHING(aclrtReleaseMemAddress)
DOES_NOTHING(aclrtMapMem)
DOES_NOTHING(aclrtUnmapMem)
DOES_NOTHING(aclrtMemExportToShareableHandle)
DOES_NOTHING(aclrtMemImportFromShareableHandle)
DOES_NOTHING(aclrtMemSetPidToShareableHandle)
DOES_NOTHING(aclrtMemcpy)
DOES_NOTHING(aclrtMemcpyAsync)
DOES_NOTHING(aclrtMemset)

/* Operators and their descriptions. */
DOES_NOTHING(aclCreateDataBuffer)
DOES_NOTHING(aclDestroyDataBuffer)
DOES_NOTHING(aclCreateTensorDesc)
DOES_NOTHING(aclDestroyTensorDesc)
DOES_NOTHING(aclGetTensorDescDimV2)
DOES_NOTHING(aclGetTensorDescFormat)
DOES_NOTHING(aclGetTensorDescNumDims)
DOES_NOTHING(aclGetTensorDescType)
DOES_NOTHING(aclSetTensorDescName)
DOES_NOTHING(aclSetTensorFormat)
DOES_NOTHING(aclSetTensorPlaceMent)
DOES_NOTHING(aclSetTensorShape)
DOES_NOTHING(aclopCompileAndExecute)
DOES_NOTHING(aclopCreateAttr)
DOES_NOTHING(aclopDestroyAttr)
DOES_NOTHING(aclopSetAttrBool)
DOES_NOTHING(aclopSetAttrDataType)
DOES_NOTHING(aclopSetAttrFloat)
DOES_NOTHING(aclopSetAttrInt)
DOES_NOTHING(aclopSetAttrListBool)
DOES_NOTHING(aclopSetAttrListFloat)
DOES_NOTHING(aclopSetAttrListInt)
DOES_NOTHING(aclopSetAttrListListInt)
DOES_NOTHING(aclopSetAttrString)
DOES_NOTHING(aclrtBinaryGetFunction)
DOES_NOTHING(aclrtBinaryLoadFromData)
DOES_NOTHING(aclrtGetFunctionAddr)
DOES_NOTHING(rtDevBinaryRegister)
DOES_NOTHING(rtFunctionRegister)
DOES_NOTHING(rtGetC2cCtrlAddr)
DOES_NOTHING(rtKernelLaunch)

/* Dumps, logs and profiles. */
DOES_NOTHING(aclAppLog)
DOES_NOTHING(aclmdlInitDump)
DOES_NOTHING(aclmdlSetDump)
DOES_NOTHING(aclmdlFinalizeDump)
DOES_NOTHING(MsprofGetHashId)
DOES_NOTHING(MsprofRegisterCallback)
DOES_NOTHING(MsprofReportAdditionalInfo)
DOES_NOTHING(MsprofReportApi)
DOES_NOTHING(MsprofReportCompactInfo)
DOES_NOTHING(MsprofSysCycleTime)
