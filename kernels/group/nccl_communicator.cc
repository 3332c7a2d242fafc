#include "nccl_communicator.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "../tensorflow/tf_api.h"

namespace lm_head {
namespace {

// The part of NCCL's C interface that is used here; it has been the same since NCCL 2.4.
constexpr int kSuccess = 0, kInProgress = 7, kInt8 = 0;
struct UniqueId {
  char bytes[128];
};

struct Library {
  int (*getUniqueId)(UniqueId* id);
  int (*commInitRank)(void** communicator, int worldSize, UniqueId id, int rank);
  int (*allGather)(const void* send, void* receive, size_t count, int type, void* communicator, cudaStream_t stream);
  int (*commGetAsyncError)(void* communicator, int* error);
  int (*commAbort)(void* communicator);
  const char* (*getErrorString)(int error);
};

// The folder of TensorFlow's own library, beside which its wheels have put NCCL.
std::string tensorflowFolder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&TF_NewStatus), &info) == 0 || info.dli_fname == nullptr) return ".";
  const std::string path = info.dli_fname;
  return path.substr(0, path.rfind('/'));
}

void* openLibrary() {
  constexpr const char* kName = "libnccl.so.2";
  if (void* loaded = dlopen(kName, RTLD_NOW | RTLD_NOLOAD)) return loaded;
  std::vector<std::string> paths;
  if (const char* home = std::getenv("NCCL_HOME")) paths.push_back(std::string(home) + "/lib/" + kName);
  paths.push_back(tensorflowFolder() + "/../nvidia/nccl/lib/" + kName);
  paths.push_back(kName);
  std::string tried;
  for (const std::string& path : paths) {
    if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    tried += (tried.empty() ? "" : "; ") + std::string(dlerror());
  }
  throw std::runtime_error("NCCL was not found; install it, or set NCCL_HOME to the folder that has lib/" +
                           std::string(kName) + " (" + tried + ")");
}

template <class Function>
void find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function == nullptr) throw std::runtime_error(std::string("the NCCL that was found has no ") + name);
}

// Stays loaded: its threads may outlive a communicator.
const Library& nccl() {
  static const Library library = [] {
    void* handle = openLibrary();
    Library found{};
    find(handle, "ncclGetUniqueId", found.getUniqueId);
    find(handle, "ncclCommInitRank", found.commInitRank);
    find(handle, "ncclAllGather", found.allGather);
    find(handle, "ncclCommGetAsyncError", found.commGetAsyncError);
    find(handle, "ncclCommAbort", found.commAbort);
    find(handle, "ncclGetErrorString", found.getErrorString);
    return found;
  }();
  return library;
}

std::string errorText(const char* call, int error) {
  return std::string(call) + ": " + nccl().getErrorString(error) + " (NCCL_DEBUG=WARN says more)";
}

void check(const char* call, int error) {
  if (error != kSuccess) throw std::runtime_error(errorText(call, error));
}

}  // namespace

void NcclCommunicator::load() { nccl(); }

std::string NcclCommunicator::newId() {
  UniqueId id{};
  check("ncclGetUniqueId", nccl().getUniqueId(&id));
  return std::string(id.bytes, sizeof(id.bytes));
}

NcclCommunicator::NcclCommunicator(const std::string& id, int rank, int worldSize) : rank_(rank) {
  UniqueId uniqueId{};
  if (id.size() != sizeof(uniqueId.bytes)) throw std::runtime_error("rank 0 gave no NCCL id");
  std::memcpy(uniqueId.bytes, id.data(), id.size());
  check("ncclCommInitRank", nccl().commInitRank(&communicator_, worldSize, uniqueId, rank));
}

void NcclCommunicator::allGather(void* blocks, size_t bytes, cudaStream_t stream) {
  const char* own = static_cast<const char*>(blocks) + rank_ * bytes;
  check("ncclAllGather", nccl().allGather(own, blocks, bytes, kInt8, communicator_, stream));
}

std::string NcclCommunicator::problem() const {
  int error = kSuccess;
  if (communicator_ == nullptr || nccl().commGetAsyncError(communicator_, &error) != kSuccess) return "";
  return error == kSuccess || error == kInProgress ? "" : errorText("NCCL", error);
}

void NcclCommunicator::abort() {
  // Nothing is left to do where this fails: the communicator is not used again.
  if (communicator_ != nullptr) nccl().commAbort(communicator_);
  communicator_ = nullptr;
}

}  // namespace lm_head
