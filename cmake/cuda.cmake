# nvcc by hand, not CMake's CUDA language: that probes for a whole toolkit, and pip's nvcc is only a part of one.
if(CUDA_ARCHITECTURES STREQUAL "native" OR NOT CUDA_ARCHITECTURES)
  set(code_flags -arch=native)
  set(CUDA_ARCHITECTURES native)
else()
  set(code_flags)
  foreach(architecture ${CUDA_ARCHITECTURES})
    list(APPEND code_flags -gencode=arch=compute_${architecture},code=sm_${architecture})
    set(newest ${architecture})
  endforeach()
  # PTX of the newest, for GPUs that come later
  list(APPEND code_flags -gencode=arch=compute_${newest},code=compute_${newest})
endif()

find_path(cuda_include cuda_runtime_api.h PATHS ${CUDA_ROOT}/include ${CUDA_ROOT}/targets/x86_64-linux/include NO_DEFAULT_PATH REQUIRED)
find_library(cudart_static cudart_static PATHS ${CUDA_ROOT}/lib64 ${CUDA_ROOT}/lib ${CUDA_ROOT}/targets/x86_64-linux/lib
             NO_DEFAULT_PATH REQUIRED)

# compile_cuda(OBJECTS "flags" source...): adds a rule for each source and sets OBJECTS in the caller
function(compile_cuda objects flags)
  set(list)
  foreach(source ${ARGN})
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${source}.o)
    get_filename_component(folder ${object} DIRECTORY)
    add_custom_command(
      OUTPUT ${object}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${folder}
      COMMAND ${NVCC} -std=c++17 -O3 ${flags} -ccbin ${CMAKE_CXX_COMPILER} -Xcompiler=-fPIC,-Wall,-Wextra,-fvisibility=hidden -I${cuda_include}
              -MD -MF ${object}.d -c ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${object}
      DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${source}
      DEPFILE ${object}.d
      COMMENT "nvcc ${source}"
      VERBATIM)
    list(APPEND list ${object})
  endforeach()
  set(${objects} ${list} PARENT_SCOPE)
endfunction()

compile_cuda(cuda_objects "${code_flags}" ${cuda_sources})
# instructions of one architecture only; other GPUs never call them
compile_cuda(hopper_objects "-gencode=arch=compute_90a,code=sm_90a" ${hopper_sources})
add_library(cuda_kernels STATIC ${cuda_objects} ${hopper_objects})
set_target_properties(cuda_kernels PROPERTIES LINKER_LANGUAGE CXX)
target_link_libraries(cuda_kernels PUBLIC ${cudart_static} Threads::Threads ${CMAKE_DL_LIBS} rt)

string(REPLACE ";" "," architectures_text "${CUDA_ARCHITECTURES}")
target_sources(tfjs_lm_head_ops PRIVATE ${gpu_ops} kernels/tensorflow/stream.cc)
target_include_directories(tfjs_lm_head_ops SYSTEM PRIVATE ${cuda_include})
target_compile_definitions(tfjs_lm_head_ops PRIVATE LM_HEAD_CUDA="${architectures_text}")
target_link_libraries(tfjs_lm_head_ops PRIVATE cuda_kernels)

# The launchers' own tests are not part of the npm package.
if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/test/cuda/main.cu)
  compile_cuda(cuda_test_objects "${code_flags}" test/cuda/lm_head_topk_test.cu test/cuda/score_options_test.cu test/cuda/decoding_test.cu test/cuda/vocab_parallel_argmax_test.cu
               test/cuda/merge_top_k_test.cu test/cuda/vocab_parallel_argmax_benchmark.cu test/cuda/benchmark.cu
               test/cuda/matrix.cu test/cuda/read_floor.cu test/cuda/main.cu)
  add_executable(cuda_test ${cuda_test_objects})
  set_target_properties(cuda_test PROPERTIES LINKER_LANGUAGE CXX RUNTIME_OUTPUT_DIRECTORY ${OUTPUT_DIR})
  target_link_libraries(cuda_test PRIVATE cuda_kernels)
endif()
