import { NativeProgram } from './native_program';

it('the CPU kernels of the argmax agree with their reference for 32-bit and 16-bit logits', async () => {
  const program = new NativeProgram('vocab_parallel_argmax_cpu_test');
  let last: string | undefined;
  for (let line = await program.next(); line !== undefined; line = await program.next()) last = line;
  expect(last).toMatch(/^[1-9]\d* checks, 0 failed$/);
  expect(await program.ended).toEqual({ code: 0, signal: null });
});
