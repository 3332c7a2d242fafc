// Marks what CPU code, too, includes and calls.
#pragma once

#ifdef __CUDACC__
#define LM_HEAD_HOST_DEVICE __host__ __device__
#else
#define LM_HEAD_HOST_DEVICE
#endif
