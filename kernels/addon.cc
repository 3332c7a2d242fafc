// The addon that Node.js loads: it brings the op library into the process and answers what was built into it.
#include <dlfcn.h>
#include <napi.h>

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

Napi::Value cudaArchitectures(const Napi::CallbackInfo& info) {
  return Napi::String::New(info.Env(), symbol<const char*()>(info.Env(), "lmHeadCudaArchitectures")());
}

Napi::Value cudaKernels(const Napi::CallbackInfo& info) {
  const std::string architectures = symbol<const char*()>(info.Env(), "lmHeadCudaArchitectures")();
  return Napi::Boolean::New(info.Env(), !architectures.empty());
}

Napi::Value gpuCount(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), symbol<int()>(info.Env(), "lmHeadGpuCount")());
}

Napi::Object init(Napi::Env env, Napi::Object exports) {
  exports.Set("load", Napi::Function::New(env, load));
  exports.Set("cudaKernels", Napi::Function::New(env, cudaKernels));
  exports.Set("cudaArchitectures", Napi::Function::New(env, cudaArchitectures));
  exports.Set("gpuCount", Napi::Function::New(env, gpuCount));
  return exports;
}

}  // namespace

NODE_API_MODULE(tfjs_lm_head_addon, init)
