// The addon that Node.js loads: it brings the op library into the process, answers what was built into it, and opens
// groups of processes.
#include <dlfcn.h>
#include <napi.h>

#include <array>
#include <cstdint>

namespace {

// The op library stays in the process for good (it is linked with -z nodelete): TensorFlow keeps its function pointers.
void* loadedLibrary = nullptr;

template <class Function>
Function* symbol(Napi::Env env, const char* name) {
  if (loadedLibrary == nullptr) throw Napi::Error::New(env, "the op library is not loaded: call load first");
  void* address = dlsym(loadedLibrary, name);
  if (address == nullptr) throw Napi::Error::New(env, std::string("the op library has no symbol ") + name);
  return reinterpret_cast<Function*>(address);
}

void load(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  if (info.Length() != 1 || !info[0].IsString())
    throw Napi::TypeError::New(env, "load(path): expected the path of the op library");
  void* library = dlopen(info[0].As<Napi::String>().Utf8Value().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw Napi::Error::New(env, dlerror());
  loadedLibrary = library;
  const std::string error = symbol<const char*()>(env, "lmHeadRegistrationError")();
  if (!error.empty()) throw Napi::Error::New(env, "registering the ops failed: " + error);
}

Napi::Value cudaKernels(const Napi::CallbackInfo& info) {
  const std::string architectures = symbol<const char*()>(info.Env(), "lmHeadCudaArchitectures")();
  return Napi::Boolean::New(info.Env(), !architectures.empty());
}

Napi::Value gpuCount(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), symbol<int()>(info.Env(), "lmHeadGpuCount")());
}

// Texts that the op library writes.
using Text = std::array<char, 4096>;

Napi::Value openTensorParallelGroup(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  if (info.Length() != 5 || !info[0].IsNumber() || !info[1].IsNumber() || !info[2].IsString() || !info[3].IsNumber() ||
      !info[4].IsNumber()) {
    throw Napi::TypeError::New(
        env, "openTensorParallelGroup(rank, worldSize, host, port, timeoutMs): expected numbers and a host name");
  }
  const auto number = [&](int index) { return info[index].As<Napi::Number>(); };
  const std::string host = info[2].As<Napi::String>().Utf8Value();
  Text error{};
  const auto open =
      symbol<int64_t(int, int, const char*, int, int64_t, char*, size_t)>(env, "lmHeadOpenTensorParallelGroup");
  const int64_t handle = open(number(0).Int32Value(), number(1).Int32Value(), host.c_str(), number(3).Int32Value(),
                              number(4).Int64Value(), error.data(), error.size());
  if (handle == 0) throw Napi::Error::New(env, error.data());
  // Where this thread's JavaScript ends first: nobody could close the group then, and TensorFlow's context, which ends
  // soon after, would wait for the GPU, and the GPU for the other ranks.
  const auto abandon = symbol<void(int64_t)>(env, "lmHeadAbandonTensorParallelGroup");
  env.AddCleanupHook([abandon, handle] { abandon(handle); });
  return Napi::Number::New(env, static_cast<double>(handle));
}

// Calls a function of the op library that takes a handle and writes a text.
std::string askOfGroup(const Napi::CallbackInfo& info, const char* name) {
  if (info.Length() != 1 || !info[0].IsNumber()) throw Napi::TypeError::New(info.Env(), "expected a group's handle");
  Text text{};
  symbol<void(int64_t, char*, size_t)>(info.Env(), name)(info[0].As<Napi::Number>().Int64Value(), text.data(),
                                                         text.size());
  return text.data();
}

void failTensorParallelGroup(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  if (info.Length() != 2 || !info[0].IsNumber() || !info[1].IsString()) {
    throw Napi::TypeError::New(env, "failTensorParallelGroup(handle, why): expected a group's handle and a text");
  }
  const std::string why = info[1].As<Napi::String>().Utf8Value();
  symbol<void(int64_t, const char*)>(env, "lmHeadFailTensorParallelGroup")(info[0].As<Napi::Number>().Int64Value(),
                                                                           why.c_str());
}

void closeTensorParallelGroup(const Napi::CallbackInfo& info) {
  const std::string error = askOfGroup(info, "lmHeadCloseTensorParallelGroup");
  if (!error.empty()) throw Napi::Error::New(info.Env(), error);
}

Napi::Value tensorParallelGroupError(const Napi::CallbackInfo& info) {
  return Napi::String::New(info.Env(), askOfGroup(info, "lmHeadTensorParallelGroupError"));
}

Napi::Object init(Napi::Env env, Napi::Object exports) {
  exports.Set("load", Napi::Function::New(env, load));
  exports.Set("cudaKernels", Napi::Function::New(env, cudaKernels));
  exports.Set("gpuCount", Napi::Function::New(env, gpuCount));
  exports.Set("openTensorParallelGroup", Napi::Function::New(env, openTensorParallelGroup));
  exports.Set("failTensorParallelGroup", Napi::Function::New(env, failTensorParallelGroup));
  exports.Set("closeTensorParallelGroup", Napi::Function::New(env, closeTensorParallelGroup));
  exports.Set("tensorParallelGroupError", Napi::Function::New(env, tensorParallelGroupError));
  return exports;
}

}  // namespace

NODE_API_MODULE(tfjs_lm_head_addon, init)
