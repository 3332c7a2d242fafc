// Matrix products of a warpgroup on compute capability 9.0, for the widths that the LM head uses. Thread 32w + 4g + t
// of the warpgroup has rows 16w+g (sums 4j, 4j+1) and 16w+g+8 (sums 4j+2, 4j+3) of columns 8j+2t and 8j+2t+1.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace lm_head {

// sums (+)= a . b for 64 rows, kColumns columns and 16 terms, a and b in shared memory; with accumulate == 0 the sums
// start anew.
template <class Half, int kColumns>
struct WarpgroupProduct;

// The same for tf32 numbers and 8 terms, with a in registers: rows g and g+8 at term t, then both at term t+4.
template <int kColumns>
struct WarpgroupProductTf32;

#define LM_HEAD_WARPGROUP_PRODUCT(HALF, TYPE, COLUMNS, PLACES, A, B, ACCUMULATE, ...)                               \
  template <>                                                                                                       \
  struct WarpgroupProduct<HALF, COLUMNS> {                                                                          \
    static __device__ inline void run(float (&s)[COLUMNS / 2], uint64_t a, uint64_t b, int accumulate) {            \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " ACCUMULATE                                                   \
                   ", 0;\n"                                                                                         \
                   "wgmma.mma_async.sync.aligned.m64n" #COLUMNS "k16.f32." TYPE "." TYPE " {" PLACES "}, " A ", " B \
                   ", p, 1, 1, 0, 0;\n}\n"                                                                          \
                   : __VA_ARGS__                                                                                    \
                   : "l"(a), "l"(b), "r"(accumulate));                                                              \
    }                                                                                                               \
  };

#define LM_HEAD_WARPGROUP_PRODUCT_TF32(COLUMNS, PLACES, A, B, ACCUMULATE, ...)                                       \
  template <>                                                                                                        \
  struct WarpgroupProductTf32<COLUMNS> {                                                                             \
    static __device__ inline void run(float (&s)[COLUMNS / 2], const uint32_t (&a)[4], uint64_t b, int accumulate) { \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " ACCUMULATE                                                    \
                   ", 0;\n"                                                                                          \
                   "wgmma.mma_async.sync.aligned.m64n" #COLUMNS "k8.f32.tf32.tf32 {" PLACES "}, {" A "}, " B         \
                   ", p, 1, 1;\n}\n"                                                                                 \
                   : __VA_ARGS__                                                                                     \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));                           \
    }                                                                                                                \
  };

#define LM_HEAD_PLACES_8 "%0,%1,%2,%3"
#define LM_HEAD_SUMS_8 "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3])
LM_HEAD_WARPGROUP_PRODUCT(__nv_bfloat16, "bf16", 8, LM_HEAD_PLACES_8, "%4", "%5", "%6", LM_HEAD_SUMS_8)
LM_HEAD_WARPGROUP_PRODUCT(__half, "f16", 8, LM_HEAD_PLACES_8, "%4", "%5", "%6", LM_HEAD_SUMS_8)
LM_HEAD_WARPGROUP_PRODUCT_TF32(8, LM_HEAD_PLACES_8, "%4,%5,%6,%7", "%8", "%9", LM_HEAD_SUMS_8)

#define LM_HEAD_PLACES_16 "%0,%1,%2,%3,%4,%5,%6,%7"
#define LM_HEAD_SUMS_16 "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3]), "+f"(s[4]), "+f"(s[5]), "+f"(s[6]), "+f"(s[7])
LM_HEAD_WARPGROUP_PRODUCT(__nv_bfloat16, "bf16", 16, LM_HEAD_PLACES_16, "%8", "%9", "%10", LM_HEAD_SUMS_16)
LM_HEAD_WARPGROUP_PRODUCT(__half, "f16", 16, LM_HEAD_PLACES_16, "%8", "%9", "%10", LM_HEAD_SUMS_16)
LM_HEAD_WARPGROUP_PRODUCT_TF32(16, LM_HEAD_PLACES_16, "%8,%9,%10,%11", "%12", "%13", LM_HEAD_SUMS_16)

#define LM_HEAD_PLACES_32 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define LM_HEAD_SUMS_32                                                                                       \
  "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3]), "+f"(s[4]), "+f"(s[5]), "+f"(s[6]), "+f"(s[7]), "+f"(s[8]), \
      "+f"(s[9]), "+f"(s[10]), "+f"(s[11]), "+f"(s[12]), "+f"(s[13]), "+f"(s[14]), "+f"(s[15])
LM_HEAD_WARPGROUP_PRODUCT(__nv_bfloat16, "bf16", 32, LM_HEAD_PLACES_32, "%16", "%17", "%18", LM_HEAD_SUMS_32)
LM_HEAD_WARPGROUP_PRODUCT(__half, "f16", 32, LM_HEAD_PLACES_32, "%16", "%17", "%18", LM_HEAD_SUMS_32)
LM_HEAD_WARPGROUP_PRODUCT_TF32(32, LM_HEAD_PLACES_32, "%16,%17,%18,%19", "%20", "%21", LM_HEAD_SUMS_32)

#define LM_HEAD_PLACES_64                                                                          \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25," \
  "%26,%27,%28,%29,%30,%31"
#define LM_HEAD_SUMS_64                                                                                       \
  "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3]), "+f"(s[4]), "+f"(s[5]), "+f"(s[6]), "+f"(s[7]), "+f"(s[8]), \
      "+f"(s[9]), "+f"(s[10]), "+f"(s[11]), "+f"(s[12]), "+f"(s[13]), "+f"(s[14]), "+f"(s[15]), "+f"(s[16]),  \
      "+f"(s[17]), "+f"(s[18]), "+f"(s[19]), "+f"(s[20]), "+f"(s[21]), "+f"(s[22]), "+f"(s[23]), "+f"(s[24]), \
      "+f"(s[25]), "+f"(s[26]), "+f"(s[27]), "+f"(s[28]), "+f"(s[29]), "+f"(s[30]), "+f"(s[31])
LM_HEAD_WARPGROUP_PRODUCT(__nv_bfloat16, "bf16", 64, LM_HEAD_PLACES_64, "%32", "%33", "%34", LM_HEAD_SUMS_64)
LM_HEAD_WARPGROUP_PRODUCT(__half, "f16", 64, LM_HEAD_PLACES_64, "%32", "%33", "%34", LM_HEAD_SUMS_64)
LM_HEAD_WARPGROUP_PRODUCT_TF32(64, LM_HEAD_PLACES_64, "%32,%33,%34,%35", "%36", "%37", LM_HEAD_SUMS_64)

#define LM_HEAD_PLACES_128                                                                         \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25," \
  "%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,"   \
  "%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define LM_HEAD_SUMS_128                                                                                      \
  "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3]), "+f"(s[4]), "+f"(s[5]), "+f"(s[6]), "+f"(s[7]), "+f"(s[8]), \
      "+f"(s[9]), "+f"(s[10]), "+f"(s[11]), "+f"(s[12]), "+f"(s[13]), "+f"(s[14]), "+f"(s[15]), "+f"(s[16]),  \
      "+f"(s[17]), "+f"(s[18]), "+f"(s[19]), "+f"(s[20]), "+f"(s[21]), "+f"(s[22]), "+f"(s[23]), "+f"(s[24]), \
      "+f"(s[25]), "+f"(s[26]), "+f"(s[27]), "+f"(s[28]), "+f"(s[29]), "+f"(s[30]), "+f"(s[31]), "+f"(s[32]), \
      "+f"(s[33]), "+f"(s[34]), "+f"(s[35]), "+f"(s[36]), "+f"(s[37]), "+f"(s[38]), "+f"(s[39]), "+f"(s[40]), \
      "+f"(s[41]), "+f"(s[42]), "+f"(s[43]), "+f"(s[44]), "+f"(s[45]), "+f"(s[46]), "+f"(s[47]), "+f"(s[48]), \
      "+f"(s[49]), "+f"(s[50]), "+f"(s[51]), "+f"(s[52]), "+f"(s[53]), "+f"(s[54]), "+f"(s[55]), "+f"(s[56]), \
      "+f"(s[57]), "+f"(s[58]), "+f"(s[59]), "+f"(s[60]), "+f"(s[61]), "+f"(s[62]), "+f"(s[63])
LM_HEAD_WARPGROUP_PRODUCT(__nv_bfloat16, "bf16", 128, LM_HEAD_PLACES_128, "%64", "%65", "%66", LM_HEAD_SUMS_128)
LM_HEAD_WARPGROUP_PRODUCT(__half, "f16", 128, LM_HEAD_PLACES_128, "%64", "%65", "%66", LM_HEAD_SUMS_128)
LM_HEAD_WARPGROUP_PRODUCT_TF32(128, LM_HEAD_PLACES_128, "%64,%65,%66,%67", "%68", "%69", LM_HEAD_SUMS_128)

#undef LM_HEAD_PLACES_8
#undef LM_HEAD_SUMS_8
#undef LM_HEAD_PLACES_16
#undef LM_HEAD_SUMS_16
#undef LM_HEAD_PLACES_32
#undef LM_HEAD_SUMS_32
#undef LM_HEAD_PLACES_64
#undef LM_HEAD_SUMS_64
#undef LM_HEAD_PLACES_128
#undef LM_HEAD_SUMS_128
#undef LM_HEAD_WARPGROUP_PRODUCT
#undef LM_HEAD_WARPGROUP_PRODUCT_TF32

}  // namespace lm_head
