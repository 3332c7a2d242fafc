import { expectNoneFailed } from './native_program';

it('the log-sum-exp has the same bits for every order, grouping and cut, and is right', async () => {
  await expectNoneFailed('log_sum_test');
});
