import sys,ctypes,random,torch,os
names=sys.argv[1].split(','); shapes=sys.argv[2].split(';'); rounds=int(sys.argv[3]); ms=float(sys.argv[4])
here=os.path.dirname(os.path.abspath(__file__))
P=ctypes.c_void_p; L=ctypes.c_long
libs={}
for n in names:
    base,_,opt=n.partition('@')
    f=ctypes.CDLL(f'{here}/{base}.so').run
    f.argtypes=[P]*5+[L]*6+[ctypes.c_float,ctypes.c_int,ctypes.c_int,P]
    libs[n]=(f,int(opt or 0))
def make(kind,B,H,Lq,Lkv,D):
    g=lambda l: (torch.randn(B,H,l,D,device='cuda')+(0.5 if kind!='plain' else 0))
    q,k,v=g(Lq),g(Lkv),g(Lkv)
    if kind=='q20': q=torch.randn_like(q)*20
    if kind=='key7': k=torch.randn_like(k); q=torch.randn_like(q); k[:,:,::7]*=30
    n=torch.arange(Lkv,device='cuda').view(1,1,-1,1)/Lkv
    if kind=='ramp': k=torch.randn_like(k)*(60*n)
    if kind=='down': k=torch.randn_like(k)*(60*(1-n))
    if kind=='steep': k=torch.ones_like(k)*(n*6000)+torch.randn_like(k); q=q.abs()
    if kind=='jump': k=torch.randn_like(k); k[:,:,Lkv//2:]*=40
    if kind=='bigv': v=v*1e30
    return [x.bfloat16() for x in (q,k,v)]
def ref(q,k,v,causal,scale):
    o=torch.empty(q.shape,device='cuda',dtype=torch.float32)
    Lq,Lkv=q.shape[2],k.shape[2]
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            if (b*q.shape[1]+h)%7: continue
            s=(q[b,h].double()@k[b,h].double().T)*scale if Lq*Lkv<=2**24 else (q[b,h].float()@k[b,h].float().T)*scale
            if causal:
                i=torch.arange(Lq,device='cuda')[:,None]; j=torch.arange(Lkv,device='cuda')[None]
                s.masked_fill_(j>i+Lkv-Lq,float('-inf'))
            o[b,h]=(torch.softmax(s,-1).to(s.dtype)@v[b,h].to(s.dtype)).float()
    return o
torch.backends.cuda.matmul.allow_tf32=False
from torch.nn.attention import sdpa_kernel,SDPBackend
for spec in shapes:
    parts=spec.split(':'); B,H,Lq,Lkv,D=map(int,parts[0].split(','))
    causal='c' in parts[1:]; kinds=[p for p in parts[1:] if p!='c'] or ['half']
    for kind in kinds:
        q,k,v=make(kind,B,H,Lq,Lkv,D); scale=D**-0.5; o=torch.empty_like(q)
        lse=torch.empty(B,H,Lq,device='cuda')
        stream=torch.cuda.current_stream().cuda_stream
        def ours(n,out=o,with_lse=False):
            f,opt=libs[n]
            if f(q.data_ptr(),k.data_ptr(),v.data_ptr(),out.data_ptr(),lse.data_ptr() if with_lse else None,B,H,H,Lq,Lkv,D,scale,int(causal),opt,stream): raise SystemExit(n)
        def cudnn():
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION): torch.nn.functional.scaled_dot_product_attention(q,k,v,is_causal=causal,scale=scale)
        if ms<=0 or os.environ.get('CHECK','1')=='1':
            r=ref(q,k,v,causal,scale); sel=[(b,h) for b in range(B) for h in range(H) if (b*H+h)%7==0]
            errs=[]
            for n in names:
                o.fill_(float('nan')); ours(n); torch.cuda.synchronize()
                d=torch.stack([(o[b,h].double()-r[b,h].double()).norm()/r[b,h].double().norm() for b,h in sel])
                errs.append(f'{n} {d.max().item():.2e}{"" if torch.isfinite(o).all() else " NONFINITE"}')
            del r
            print(spec,kind,'err',' '.join(errs),flush=True)
        if ms<=0: continue
        fs={n:(lambda n=n:ours(n)) for n in names}
        fs['cudnn']=cudnn
        times={n:[] for n in fs}
        for _ in range(rounds):
            order=list(fs); random.shuffle(order)
            for n in order:
                f=fs[n]; f(); torch.cuda.synchronize()
                a,b=torch.cuda.Event(enable_timing=True),torch.cuda.Event(enable_timing=True)
                a.record(); [f() for _ in range(5)]; b.record(); torch.cuda.synchronize()
                one=a.elapsed_time(b)/5; it=max(3,int(ms/one))
                for _ in range(it): f()
                a.record()
                for _ in range(it): f()
                b.record(); torch.cuda.synchronize(); times[n].append(a.elapsed_time(b)/it)
        fl=4*B*H*Lq*Lkv*D*(0.5 if causal else 1)
        med={n:sorted(t)[len(t)//2] for n,t in times.items()}
        print(spec,kind,' '.join(f'{n} {fl/m/1e9:.0f} ({med["cudnn"]/m:.3f})' for n,m in med.items()),flush=True)
