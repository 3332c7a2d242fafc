import { expectNoneFailed } from './native_program';

it('the CPU kernels of the argmax agree with their reference for 32-bit and 16-bit logits', async () => {
  await expectNoneFailed('vocab_parallel_argmax_cpu_test');
});
